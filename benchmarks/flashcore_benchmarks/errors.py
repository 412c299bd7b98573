"""What a user can repair, told apart from our bugs."""


class UserError(Exception):
    """A wrong argument, file or machine. The tools print the text alone and
    exit with 2."""
