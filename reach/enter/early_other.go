//go:build !linux

package enter

// Early does nothing: cgroups and namespaces exist on Linux only.
func Early([]string) {}
