"""Characters that stand for cells of an image in the Kitty protocol: see `frn_tui.terminal.pixels`."""

PLACEHOLDER = "\U0010eeee"
WAITING = "\u00a0"
"""Character that fills the place of an image until the image arrives; like its cells, it is written after text."""
_MARKS = (
    "305 30D-30E 310 312 33D-33F 346 34A-34C 350-352 357 35B 363-36F 483-487 592-595 597-599 59C-5A1 5A8-5A9 5AB-5AC "
    "5AF 5C4 610-617 657-65B 65D-65E 6D6-6DC 6DF-6E2 6E4 6E7-6E8 6EB-6EC 730 732-733 735-736 73A 73D 73F-741 743 745 "
    "747 749-74A 7EB-7F1 7F3 816-819 81B-823 825-827 829-82D 951 953-954 F82-F83 F86-F87 135D-135F 17DD 193A 1A17 "
    "1A75-1A7C 1B6B 1B6D-1B73 1CD0-1CD2 1CDA-1CDB 1CE0 1DC0-1DC1 1DC3-1DC9 1DCB-1DCC 1DD1-1DE6 1DFE 20D0-20D1 "
    "20D4-20D7 20DB-20DC 20E1 20E7 20E9 20F0 2CEF-2CF1 2DE0-2DFF A66F A67C-A67D A6F0-A6F1 A8E0-A8F1 AAB0 AAB2-AAB3 "
    "AAB7-AAB8 AABE-AABF AAC1 FE20-FE26 10A0F 10A38 1D185-1D189 1D1AA-1D1AD 1D242-1D244"
)
"""The protocol's marks for 0, 1, 2 ...: combining characters above, from Unicode 6."""
MARKS = "".join(
    chr(code)
    for first, _, last in (part.partition("-") for part in _MARKS.split())
    for code in range(int(first, 16), int(last or first, 16) + 1)
)
PLACES = {mark: place for place, mark in enumerate(MARKS)}  # number that each mark stands for
