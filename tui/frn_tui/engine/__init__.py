"""The app's engine process: it scans, decodes, embeds, enrolls, scores, saves and exports.

Everything that blocks, prints, crashes or needs memory runs here, and the app can end the process at any moment. It
speaks `frn_tui.client.protocol` over standard input and output and ends when its input does. It does not need torch.
"""
