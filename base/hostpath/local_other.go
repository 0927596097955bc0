//go:build !windows

package hostpath

// Local returns a path as this system writes it: unchanged.
func Local(path string) string { return path }

// Common returns a path of this system in the common form: unchanged.
func Common(path string) string { return path }
