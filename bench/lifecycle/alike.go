package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"bakeoff/provision/cgroup"
	"bakeoff/provision/confine"
	"bakeoff/reach/conn/local"
)

// hand is what a person would type for an environment like bakeoff's: with a network
// namespace, control groups with the limits, and its own root over the image. It is a
// shell script that uses the usual programs.
type hand struct {
	b      *bench
	layout cgroup.Layout
	dir    string // of the root
	lines  []string
}

// byHand starts such a script with the network and, if root is set, the root.
func byHand(b *bench, root bool) (*hand, error) {
	layout, err := cgroup.Detect(context.Background(), local.Conn{})
	if err != nil {
		return nil, err
	}
	h := &hand{b: b, layout: layout, dir: filepath.Join(b.dir, "hand")}
	h.add("ip netns add "+h.netns(), "ip -n "+h.netns()+" link set lo up")
	if root {
		h.add("mkdir "+h.dir+" "+h.dir+"/root "+h.dir+"/upper "+h.dir+"/work",
			fmt.Sprintf("mount -t overlay overlay -o lowerdir=%s,upperdir=%s/upper,workdir=%[2]s/work %[2]s/root",
				quote(b.image.Root), h.dir),
			fmt.Sprintf("mkdir -m 1777 -p %s/root/.bakeoff %[1]s/root%s", h.dir, confine.Scratch))
	}
	return h, nil
}

func (h *hand) add(lines ...string) { h.lines = append(h.lines, lines...) }

// netns returns the name of the namespace, and group that of the control group.
func (h *hand) netns() string { return h.b.name() }
func (h *hand) group() string { return h.b.name() }

// root returns the path at which the root is mounted.
func (h *hand) root() string { return h.dir + "/root" }

// agent binds the agent into the root.
func (h *hand) agent() {
	h.add("touch "+h.root()+confine.AgentPath, "mount --bind -o ro "+h.b.agent+" "+h.root()+confine.AgentPath)
}

// groups returns the directories of the control group, one for each hierarchy that
// enforces a limit.
func (h *hand) groups() []string {
	if v1 := h.layout.V1["cpuset"]; v1 != "" {
		return []string{path.Join(v1, h.group()), path.Join(h.layout.V1["memory"], h.group())}
	}
	return []string{path.Join(h.layout.V2, h.group())}
}

// limit creates the control groups and lets the shell join them, and so everything that
// the shell starts afterwards.
func (h *hand) limit() {
	cpu, memory := strconv.Itoa(h.b.cpu), strconv.FormatInt(int64(memory), 10)
	for i, dir := range h.groups() {
		h.add("mkdir " + dir)
		switch {
		case h.layout.V1["cpuset"] == "":
			h.add("echo "+cpu+" > "+dir+"/cpuset.cpus", "echo "+memory+" > "+dir+"/memory.max",
				"echo 0 > "+dir+"/memory.swap.max")
		case i == 0:
			h.add("cat "+path.Dir(dir)+"/cpuset.mems > "+dir+"/cpuset.mems", "echo "+cpu+" > "+dir+"/cpuset.cpus")
		default:
			h.add("echo " + memory + " > " + dir + "/memory.limit_in_bytes")
		}
		h.add("echo $$ > " + dir + "/cgroup.procs")
	}
}

// command ends the script with a program in the namespace.
func (h *hand) command(argv ...string) []string {
	quoted := make([]string, len(argv))
	for i, a := range argv {
		quoted[i] = quote(a)
	}
	h.add("exec ip netns exec " + h.netns() + " " + strings.Join(quoted, " "))
	return h.script()
}

func (h *hand) script() []string { return []string{"sh", "-ec", strings.Join(h.lines, "\n")} }

// remove returns commands that remove what the script left. A runtime may already have
// removed the groups that it was given.
func (h *hand) remove() []string {
	lines := []string{"! mountpoint -q " + h.root() + " || umount --recursive " + h.root(), "rm -rf " + h.dir,
		"ip netns delete " + h.netns()}
	for _, dir := range h.groups() {
		lines = append(lines, "! test -d "+dir+" || rmdir "+dir)
	}
	return []string{"sh", "-ec", strings.Join(lines, "\n")}
}

// quote returns s as one word of the shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func hostByHand(b *bench) (run, remove []string, err error) {
	h, err := byHand(b, false)
	if err != nil {
		return nil, nil, err
	}
	h.limit()
	return h.command(b.agent, "list"), h.remove(), nil
}

func chrootByHand(b *bench) (run, remove []string, err error) {
	h, err := byHand(b, true)
	if err != nil {
		return nil, nil, err
	}
	h.agent()
	h.add("mount -t proc proc "+h.root()+"/proc", "mount -t sysfs -o ro sysfs "+h.root()+"/sys",
		"mount --bind /dev "+h.root()+"/dev")
	h.limit()
	return h.command("chroot", h.root(), confine.AgentPath, "list"), h.remove(), nil
}

func bwrapByHand(b *bench) (run, remove []string, err error) {
	h, err := byHand(b, true)
	if err != nil {
		return nil, nil, err
	}
	h.limit()
	return h.command("bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--bind",
		h.root(), "/", "--proc", "/proc",
		"--dev", "/dev", "--ro-bind", "/sys", "/sys", "--ro-bind", b.agent, confine.AgentPath, "--", confine.AgentPath,
		"list"), h.remove(), nil
}

// nspawnByHand binds the agent into the root, because systemd-nspawn creates no mount
// point.
func nspawnByHand(b *bench) (run, remove []string, err error) {
	h, err := byHand(b, true)
	if err != nil {
		return nil, nil, err
	}
	h.agent()
	h.add("exec systemd-nspawn --quiet --register=no --keep-unit --pipe --network-namespace-path=/run/netns/" + h.netns() +
		" --directory=" + h.root() + " " + confine.AgentPath + " list")
	return h.script(), h.remove(), nil
}

// containerByHand returns a runtime's bundle with the namespace and the limits in its
// configuration. The runtime creates the group.
func containerByHand(runtime string) func(b *bench) (run, remove []string, err error) {
	return func(b *bench) (run, remove []string, err error) {
		h, err := byHand(b, true)
		if err != nil {
			return nil, nil, err
		}
		h.agent()
		argv, err := bundle(b, runtime, runtime+"-hand", func(c map[string]any) error { return h.configure(c) })
		if err != nil {
			return nil, nil, err
		}
		quoted := make([]string, len(argv))
		for i, a := range argv {
			quoted[i] = quote(a)
		}
		h.add("exec " + strings.Join(quoted, " "))
		return h.script(), h.remove(), nil
	}
}

// configure adds root, namespace and limits to a runtime's default configuration.
func (h *hand) configure(c map[string]any) error {
	c["root"] = map[string]any{"path": h.root(), "readonly": false}
	linux, ok := c["linux"].(map[string]any)
	if !ok {
		return fmt.Errorf("no linux in the configuration")
	}
	spaces, _ := linux["namespaces"].([]any)
	for _, s := range spaces {
		if m, ok := s.(map[string]any); ok && m["type"] == "network" {
			m["path"] = "/run/netns/" + h.netns()
		}
	}
	linux["cgroupsPath"] = "/" + h.group()
	linux["resources"] = map[string]any{"cpu": map[string]any{"cpus": strconv.Itoa(h.b.cpu)},
		"memory": map[string]any{"limit": int64(memory)}}
	return nil
}

// lxcRun returns a command that runs an LXC container with the agent as its first
// process: lxc-start in the foreground, which ends with it.
func lxcRun(b *bench) ([]string, error) {
	return lxcStart(b, "lxc", b.root, "lxc.net.0.type = empty")
}

func lxcByHand(b *bench) (run, remove []string, err error) {
	h, err := byHand(b, true)
	if err != nil {
		return nil, nil, err
	}
	h.agent()
	limits := []string{"lxc.cgroup2.cpuset.cpus = " + strconv.Itoa(b.cpu),
		"lxc.cgroup2.memory.max = " + strconv.FormatInt(int64(memory), 10)}
	if h.layout.V1["cpuset"] != "" {
		limits = []string{"lxc.cgroup.cpuset.cpus = " + strconv.Itoa(b.cpu),
			"lxc.cgroup.memory.limit_in_bytes = " + strconv.FormatInt(int64(memory), 10)}
	}
	argv, err := lxcStart(b, "lxc-hand", h.root(), append(limits, "lxc.namespace.share.net = /run/netns/"+h.netns())...)
	if err != nil {
		return nil, nil, err
	}
	h.add("exec " + strings.Join(argv, " "))
	return h.script(), h.remove(), nil
}

func lxcStart(b *bench, name, root string, lines ...string) ([]string, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	lines = append([]string{"lxc.uts.name = bare", "lxc.rootfs.path = dir:" + root,
		"lxc.init.cmd = " + confine.AgentPath + " list",
		"lxc.mount.auto = proc:mixed sys:mixed", "lxc.autodev = 1", "lxc.tty.max = 0", "lxc.console.path = none",
		"lxc.cap.drop = mac_admin mac_override sys_time sys_module sys_rawio",
		"lxc.seccomp.profile = /usr/share/lxc/config/common.seccomp"}, lines...)
	file := filepath.Join(dir, "config")
	return []string{"lxc-start", "--foreground", "--lxcpath", dir, "--name", b.name(), "--rcfile", file},
		os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// runscRun returns a command that runs gVisor's runtime on its default configuration.
func runscRun(b *bench) ([]string, error) {
	argv, err := bundle(b, b.runsc, "gvisor", nil)
	if err != nil {
		return nil, err
	}
	return append([]string{argv[0], "--network=none"}, argv[1:]...), nil
}

// runscByHand returns a script that creates a container which stays, and executes a
// program in it.
func runscByHand(b *bench) (run, remove []string, err error) {
	h, err := byHand(b, true)
	if err != nil {
		return nil, nil, err
	}
	h.agent()
	// A person would use the runtime's own exec.
	argv, err := bundle(b, b.runsc, "gvisor-hand", func(c map[string]any) error {
		c["process"].(map[string]any)["args"] = []string{confine.AgentPath, "pause"}
		return h.configure(c)
	})
	if err != nil {
		return nil, nil, err
	}
	runsc := argv[0] + " --network=none " + strings.Join(argv[1:3], " ")
	h.add(runsc+" run --detach "+strings.Join(argv[4:], " "),
		"exec "+runsc+" exec "+b.name()+" "+confine.AgentPath+" list")
	remove = h.remove()
	remove[2] = runsc + " delete --force " + b.name() + "\n" + remove[2]
	return h.script(), remove, nil
}

// edited reads a runtime's configuration, changes it, and writes it back.
func edited(file string, change func(map[string]any) error) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var c map[string]any
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	if err := change(c); err != nil {
		return err
	}
	if text, err = json.Marshal(c); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
