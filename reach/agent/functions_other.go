//go:build !linux && !netbsd && !freebsd

package agent

// systemFunctions are what a host can call of `serve` in addition: nothing,
// because its environments are set up from outside.
func systemFunctions() map[string]Function { return nil }
