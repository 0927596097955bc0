//go:build !linux

package nsenter

// Early does nothing: cgroups and namespaces exist on Linux only.
func Early([]string) {}
