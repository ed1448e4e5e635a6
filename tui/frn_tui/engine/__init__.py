"""The app's other process: it scans, decodes, embeds, enrols, scores, saves and exports.

Whatever blocks, prints, crashes or takes memory does so here, and the app can end it at any moment. It speaks
`frn_tui.client.protocol` over its standard input and output and ends when its input does. Free of torch.
"""
