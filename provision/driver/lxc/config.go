package lxc

import (
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/isolation"
	"bakeoff/reach/wire"
)

// common are the settings of the distribution's common.conf of LXC 5.0 for
// every container.
var common = []string{
	"lxc.cap.drop = mac_admin mac_override sys_time sys_module sys_rawio",
	"lxc.mount.auto = proc:mixed sys:mixed",
	"lxc.autodev = 1",
	"lxc.pty.max = 1024",
	"lxc.tty.max = 0",
	"lxc.console.path = none",
}

// devices are those of common.conf: containers may create any device node and
// use these.
var devices = []string{"c *:* m", "b *:* m", "c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm", "c 1:9 rwm",
	"c 5:0 rwm", "c 5:1 rwm", "c 5:2 rwm", "c 136:* rwm"}

// config is the configuration of an environment's container, with the
// additional lines more.
//
// Source: lxc.container.conf(5).
func config(e *isolation.Env, binds []wire.Bind, filter bool, more []string) (string, error) {
	lines := append([]string{
		"lxc.uts.name = " + e.Spec.Label,
		"lxc.rootfs.path = dir:" + e.Root,
		"lxc.init.cmd = " + strings.Join(isolation.Init(false), " "),
		"lxc.namespace.share.net = " + e.Netns(),
	}, common...)
	if filter {
		lines = append(lines, "lxc.seccomp.profile = "+profile)
	}
	lines = append(append(lines, more...), groups(e.Spec.Label)...)
	for _, prefix := range deviceKeys(e) {
		lines = append(lines, prefix+".deny = a")
		for _, d := range devices {
			lines = append(lines, prefix+".allow = "+d)
		}
	}
	lines = append(lines, "lxc.mount.entry = shm dev/shm tmpfs nosuid,nodev,noexec,mode=1777,create=dir 0 0",
		"lxc.mount.entry = mqueue dev/mqueue mqueue nosuid,nodev,noexec,create=dir,optional 0 0")
	for _, b := range binds {
		// A missing mount point must be created, as a file or as a directory.
		kind := "dir"
		if b.To == isolation.AgentPath {
			kind = "file"
		}
		how := "bind"
		if b.ReadOnly {
			how = "bind,ro"
		}
		lines = append(lines, "lxc.mount.entry = "+field(b.From)+" "+field(strings.TrimPrefix(path.Clean(b.To),
			"/"))+" none "+how+",create="+kind+" 0 0")
	}
	for _, l := range lines {
		if strings.ContainsAny(l, "\n\r\x00") {
			return "", fault.New(fault.Invalid, "%q does not fit on a line of LXC's configuration", l)
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// deviceKeys are the settings by which devices are limited on the host.
func deviceKeys(e *isolation.Env) []string {
	if e.Layout.V1["devices"] != "" {
		return []string{"lxc.cgroup.devices"}
	}
	if len(e.Layout.V1) == 0 {
		return []string{"lxc.cgroup2.devices"} // by a program in the kernel
	}
	return nil
}

// field formats a path for fstab(5), with blanks in octal.
func field(p string) string {
	return strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`).Replace(p)
}
