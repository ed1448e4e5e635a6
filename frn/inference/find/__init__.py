"""Find the subject of a photo: the window that one class explains much better than the others do.

A convolutional network maps a larger image to a larger map, and every window of cells is a map of what the window
shows. The errors of a class on all windows are means of its location errors, so box filters over integral images give
them all at once. The margin of a window is the mean error of the other classes minus that of the best one. It is
absolute: a share of the window's energy would favour plain background.

Boxes of examples also show what subjects of all classes have in common, and their surroundings lack: a ridge regression
of the cells of these photos, to 1 within the box and to - 1 outside. Its mean over a window is added to the margin.

Margins of windows of different sizes cannot be compared: means over fewer cells vary more, so the smallest windows
would always win. So the best window of each size is cut from the photo and read at the model's size, and so is the
whole photo. Of these, the one with the largest margin is the subject.

Shape letters: H x W cells of a map, h x w cells of a window, d channels, way classes.
"""
