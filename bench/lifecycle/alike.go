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
	"bakeoff/provision/isolation"
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
	h.addLines("ip netns add "+h.netnsName(), "ip -n "+h.netnsName()+" link set lo up")
	if root {
		h.addLines("mkdir "+h.dir+" "+h.dir+"/root "+h.dir+"/upper "+h.dir+"/work",
			fmt.Sprintf("mount -t overlay overlay -o lowerdir=%s,upperdir=%s/upper,workdir=%[2]s/work %[2]s/root",
				quoteWord(b.image.Root), h.dir),
			fmt.Sprintf("mkdir -m 1777 -p %s/root/.bakeoff %[1]s/root%s", h.dir, isolation.Scratch))
	}
	return h, nil
}

func (h *hand) addLines(lines ...string) { h.lines = append(h.lines, lines...) }

// netnsName returns the name of the namespace, and group that of the control group.
func (h *hand) netnsName() string { return h.b.containerName() }
func (h *hand) groupName() string { return h.b.containerName() }

// rootPath returns the path at which the root is mounted.
func (h *hand) rootPath() string { return h.dir + "/root" }

// bindAgent binds the agent into the root.
func (h *hand) bindAgent() {
	h.addLines(
		"touch "+h.rootPath()+isolation.AgentPath,
		"mount --bind -o ro "+h.b.agent+" "+h.rootPath()+isolation.AgentPath,
	)
}

// groupFolders returns the directories of the control group, one for each hierarchy that
// enforces a limit.
func (h *hand) groupFolders() []string {
	if v1 := h.layout.V1["cpuset"]; v1 != "" {
		return []string{path.Join(v1, h.groupName()), path.Join(h.layout.V1["memory"], h.groupName())}
	}
	return []string{path.Join(h.layout.V2, h.groupName())}
}

// joinGroups creates the control groups and lets the shell join them, and so everything that
// the shell starts afterwards.
func (h *hand) joinGroups() {
	cpu, memory := strconv.Itoa(h.b.cpu), strconv.FormatInt(int64(memory), 10)
	for i, dir := range h.groupFolders() {
		h.addLines("mkdir " + dir)
		switch {
		case h.layout.V1["cpuset"] == "":
			h.addLines("echo "+cpu+" > "+dir+"/cpuset.cpus", "echo "+memory+" > "+dir+"/memory.max",
				"echo 0 > "+dir+"/memory.swap.max")
		case i == 0:
			h.addLines("cat "+path.Dir(dir)+"/cpuset.mems > "+dir+"/cpuset.mems", "echo "+cpu+" > "+dir+"/cpuset.cpus")
		default:
			h.addLines("echo " + memory + " > " + dir + "/memory.limit_in_bytes")
		}
		h.addLines("echo $$ > " + dir + "/cgroup.procs")
	}
}

// command ends the script with a program in the namespace.
func (h *hand) command(argv ...string) []string {
	quoted := make([]string, len(argv))
	for i, a := range argv {
		quoted[i] = quoteWord(a)
	}
	h.addLines("exec ip netns exec " + h.netnsName() + " " + strings.Join(quoted, " "))
	return h.shellScript()
}

func (h *hand) shellScript() []string { return []string{"sh", "-ec", strings.Join(h.lines, "\n")} }

// removeCommands returns commands that remove what the script left. A runtime may already have
// removed the groups that it was given.
func (h *hand) removeCommands() []string {
	lines := []string{"! mountpoint -q " + h.rootPath() + " || umount --recursive " + h.rootPath(), "rm -rf " + h.dir,
		"ip netns delete " + h.netnsName()}
	for _, dir := range h.groupFolders() {
		lines = append(lines, "! test -d "+dir+" || rmdir "+dir)
	}
	return []string{"sh", "-ec", strings.Join(lines, "\n")}
}

// quoteWord returns s as one word of the shell.
func quoteWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func hostByHand(b *bench) (run, remove []string, err error) {
	h, err := byHand(b, false)
	if err != nil {
		return nil, nil, err
	}
	h.joinGroups()
	return h.command(b.agent, "list"), h.removeCommands(), nil
}

func chrootByHand(b *bench) (run, remove []string, err error) {
	h, err := byHand(b, true)
	if err != nil {
		return nil, nil, err
	}
	h.bindAgent()
	h.addLines("mount -t proc proc "+h.rootPath()+"/proc", "mount -t sysfs -o ro sysfs "+h.rootPath()+"/sys",
		"mount --bind /dev "+h.rootPath()+"/dev")
	h.joinGroups()
	return h.command("chroot", h.rootPath(), isolation.AgentPath, "list"), h.removeCommands(), nil
}

func bwrapByHand(b *bench) (run, remove []string, err error) {
	h, err := byHand(b, true)
	if err != nil {
		return nil, nil, err
	}
	h.joinGroups()
	return h.command("bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--bind",
		h.rootPath(), "/", "--proc", "/proc", "--dev", "/dev", "--ro-bind", "/sys", "/sys", "--ro-bind", b.agent,
		isolation.AgentPath, "--", isolation.AgentPath, "list"), h.removeCommands(), nil
}

// nspawnByHand binds the agent into the root, because systemd-nspawn creates no mount
// point.
func nspawnByHand(b *bench) (run, remove []string, err error) {
	h, err := byHand(b, true)
	if err != nil {
		return nil, nil, err
	}
	h.bindAgent()
	h.addLines("exec systemd-nspawn --quiet --register=no --keep-unit --pipe --network-namespace-path=/run/netns/" +
		h.netnsName() +
		" --directory=" + h.rootPath() + " " + isolation.AgentPath + " list")
	return h.shellScript(), h.removeCommands(), nil
}

// containerByHand returns a runtime's bundle with the namespace and the limits in its
// configuration. The runtime creates the group.
func containerByHand(runtime string) func(b *bench) (run, remove []string, err error) {
	return func(b *bench) (run, remove []string, err error) {
		h, err := byHand(b, true)
		if err != nil {
			return nil, nil, err
		}
		h.bindAgent()
		argv, err := bundleCommand(b, runtime, runtime+"-hand", func(c map[string]any) error { return h.configure(c) })
		if err != nil {
			return nil, nil, err
		}
		quoted := make([]string, len(argv))
		for i, a := range argv {
			quoted[i] = quoteWord(a)
		}
		h.addLines("exec " + strings.Join(quoted, " "))
		return h.shellScript(), h.removeCommands(), nil
	}
}

// configure adds root, namespace and limits to a runtime's default configuration.
func (h *hand) configure(c map[string]any) error {
	c["root"] = map[string]any{"path": h.rootPath(), "readonly": false}
	linux, ok := c["linux"].(map[string]any)
	if !ok {
		return fmt.Errorf("no linux in the configuration")
	}
	spaces, _ := linux["namespaces"].([]any)
	for _, s := range spaces {
		if m, ok := s.(map[string]any); ok && m["type"] == "network" {
			m["path"] = "/run/netns/" + h.netnsName()
		}
	}
	linux["cgroupsPath"] = "/" + h.groupName()
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
	h.bindAgent()
	limits := []string{"lxc.cgroup2.cpuset.cpus = " + strconv.Itoa(b.cpu),
		"lxc.cgroup2.memory.max = " + strconv.FormatInt(int64(memory), 10)}
	if h.layout.V1["cpuset"] != "" {
		limits = []string{"lxc.cgroup.cpuset.cpus = " + strconv.Itoa(b.cpu),
			"lxc.cgroup.memory.limit_in_bytes = " + strconv.FormatInt(int64(memory), 10)}
	}
	argv, err := lxcStart(b, "lxc-hand", h.rootPath(), append(limits,
		"lxc.namespace.share.net = /run/netns/"+h.netnsName())...)
	if err != nil {
		return nil, nil, err
	}
	h.addLines("exec " + strings.Join(argv, " "))
	return h.shellScript(), h.removeCommands(), nil
}

func lxcStart(b *bench, name, root string, lines ...string) ([]string, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	lines = append([]string{"lxc.uts.name = bare", "lxc.rootfs.path = dir:" + root,
		"lxc.init.cmd = " + isolation.AgentPath + " list",
		"lxc.mount.auto = proc:mixed sys:mixed", "lxc.autodev = 1", "lxc.tty.max = 0", "lxc.console.path = none",
		"lxc.cap.drop = mac_admin mac_override sys_time sys_module sys_rawio",
		"lxc.seccomp.profile = /usr/share/lxc/config/common.seccomp"}, lines...)
	file := filepath.Join(dir, "config")
	return []string{"lxc-start", "--foreground", "--lxcpath", dir, "--name", b.containerName(), "--rcfile", file},
		os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// runscRun returns a command that runs gVisor's runtime on its default configuration.
func runscRun(b *bench) ([]string, error) {
	argv, err := bundleCommand(b, b.runsc, "gvisor", nil)
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
	h.bindAgent()
	// A person would use the runtime's own exec.
	argv, err := bundleCommand(b, b.runsc, "gvisor-hand", func(c map[string]any) error {
		c["process"].(map[string]any)["args"] = []string{isolation.AgentPath, "pause"}
		return h.configure(c)
	})
	if err != nil {
		return nil, nil, err
	}
	runsc := argv[0] + " --network=none " + strings.Join(argv[1:3], " ")
	h.addLines(runsc+" run --detach "+strings.Join(argv[4:], " "),
		"exec "+runsc+" exec "+b.containerName()+" "+isolation.AgentPath+" list")
	remove = h.removeCommands()
	remove[2] = runsc + " delete --force " + b.containerName() + "\n" + remove[2]
	return h.shellScript(), remove, nil
}

// editJSON reads a runtime's configuration, changes it, and writes it back.
func editJSON(file string, change func(map[string]any) error) error {
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
