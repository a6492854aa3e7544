"""The paper, figure by figure: one command each, with the numbers expected."""
