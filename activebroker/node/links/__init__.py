"""Sequenced, acknowledged links to other nodes, who they are, and calls over them."""
