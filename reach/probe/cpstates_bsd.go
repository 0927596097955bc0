//go:build freebsd || netbsd || dragonfly

package probe

var cpStates = []string{"user", "nice", "system", "interrupt", "idle"}
