"""The other nodes: links to them, sequenced and acknowledged, and calls over the links."""
