package netns

// The names of network namespaces are in /run, and each mount namespace may have its own.
// A run in such a view of the system leaves names that a process outside does not see at
// the same path, but can reach through a process of the view.

// Elsewhere is the name of a network namespace in another mount namespace.
type Elsewhere struct {
	Name string
	PID  int // of a process in that mount namespace
}
