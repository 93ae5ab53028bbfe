"""``kaiwo plugin new``: writes the distribution of a new plugin from the templates beside this file."""
