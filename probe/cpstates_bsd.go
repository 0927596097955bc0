//go:build freebsd || netbsd

package probe

var cpStates = []string{"user", "nice", "system", "interrupt", "idle"}
