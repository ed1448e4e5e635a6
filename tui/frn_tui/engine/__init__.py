"""The app's engine process: it scans, decodes, embeds, enrolls, scores, saves and exports.

Everything that blocks, prints, crashes or needs memory runs here, and the app can kill the process at any moment. It
uses `frn_tui.client.protocol` over standard input and output and exits when its input ends. It does not need torch.
"""
