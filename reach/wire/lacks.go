package wire

import (
	"fmt"
	"path"
	"strings"
)

// Lacks lists what the agent in a guest of a system (as in GOOS) cannot do of c, as
// init or by the function "setup", each as a sentence about a setting; nil if it can do
// everything. A plan asks before anything is created, and the agent asks again.
func Lacks(system string, c InitConfig) []string {
	switch system {
	case "linux":
		return nil
	case "netbsd", "freebsd":
	default:
		return []string{fmt.Sprintf("the agent sets up no volumes, addresses or settings in a guest of %s", system)}
	}
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if len(c.Modules) > 0 {
		say("modules: a %s guest loads no kernel modules; use a kernel that has them built in", system)
	}
	if c.Root != "" {
		say("root: the kernel of a %s guest mounts the root itself; give it the disk", system)
	}
	if kind, _, _ := strings.Cut(c.Port, ":"); c.Port != "" && kind != "dial" && kind != "tcp" && !path.IsAbs(c.Port) {
		say("port: a %s guest has no port %q; write dial:HOST:PORT, tcp:ADDR:PORT or /dev/NAME", system, c.Port)
	}
	for _, v := range c.Volumes {
		if v.Type != "tmpfs" {
			say("volume %s: a %s guest mounts tmpfs only (got %q)", v.Path, system, v.Type)
		}
		if !path.IsAbs(v.Path) || path.Clean(v.Path) == "/" {
			say("volume %q: the path must be absolute and below /", v.Path)
		}
	}
	if n := c.Network; n != nil && (!n.Addr.IsValid() || !n.Addr.Addr().Is4()) {
		say("network: %v is not an IPv4 address with a prefix length", n.Addr)
	}
	return out
}
