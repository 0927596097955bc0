package serve

// sessionOf is the process itself: Windows has no sessions that a terminal ends.
func sessionOf(pid int) (int, error) { return pid, nil }
