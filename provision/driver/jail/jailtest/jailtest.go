// Package jailtest is a fake host with FreeBSD: jails, interfaces, the packet filter pf, mounts and
// datasets. Its commands behave as the manual pages of FreeBSD 14 say, and refuse what these do
// not describe. Programs in its jails are programs of this machine, below another root.
package jailtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/driver/fake"
	"bakeoff/reach/probe"
)

// State is what the host knows of itself.
type State struct {
	Jails  map[string]*Jail
	Links  map[string]*Link  // by name, of those in the stack of a jail by "JAIL NAME"
	Rules  map[string]string // subject → its rules, a line each
	Use    int64             // the memory that each jail uses, in bytes
	Mounts []Mount
	Clones map[string]string // dataset → where it is
	// Unmounted are datasets whose files are at their mount point with ".unmounted".
	Unmounted []string
	JID       int
	Units     int // of cloned interfaces
	// Settings are those of sysctl that differ from those of a host that is ready for guests; ""
	// is one that the kernel lacks.
	Settings map[string]string
	Anchors  map[string]string // of pf → rules
	Main     []string          // the ruleset of pf; "off" is a pf that is not enabled
	Routes   []string          // "JAIL DESTINATION GATEWAY"
}

// Jail is a jail.
type Jail struct {
	JID        int
	Path, Link string
	VNET       bool
	Addr       string
	CPUs       []int
}

// Link is an interface. Peer is the key of the other end of an epair.
type Link struct {
	Kind, Peer, Jail, Bridge string
	MAC, Description         string
	MTU, VLAN                int
	VLANDev                  string
	Addrs                    []string
	Static                   map[string]string // of a bridge: MAC address → member
	Up                       bool
}

// Mount is a file system that was mounted.
type Mount struct{ Kind, From, At string }

// Host is a fake host with FreeBSD whose state is in dir.
func Host(dir string) *fake.Host {
	with := func(f func(c *fake.Call, m *State) int) fake.Program {
		return func(c *fake.Call) (code int) {
			var m State
			err := c.Host.State(&m, func() bool {
				if m.Links == nil {
					m = State{Jails: map[string]*Jail{}, Rules: map[string]string{}, Clones: map[string]string{},
						Links: map[string]*Link{"em0": {Kind: "em", Addrs: []string{"192.0.2.9/24"}}, "em1": {Kind: "em"},
							"bridge7": {Kind: "bridge"}}, JID: 3, Settings: map[string]string{}, Anchors: map[string]string{},
						Main: []string{`nat-anchor "bakeoff/*" all`, `anchor "bakeoff/*" all`}}
				}
				code = f(c, &m)
				return code == 0
			})
			if err != nil {
				return c.Failf("%v", err)
			}
			return code
		}
	}
	passed := []string{"cp", "mkdir", "test", "ls", "cat", "mv", "rm"}
	return &fake.Host{Dir: dir, Passed: passed, Programs: map[string]fake.Program{
		"uname": with(uname), "id": with(func(c *fake.Call, _ *State) int { c.Printf("0\n"); return 0 }),
		"sysctl": with(sysctl), "jls": with(jls), "ps": with(ps), "jail": with(jailProgram), "cpuset": with(cpuset),
		"rctl":     with(rctl),
		"ifconfig": with(ifconfig), "mount": with(mount), "umount": with(umount), "chflags": with(chflags), "zfs": with(zfs),
		"jexec": jexec, "env": env, "pfctl": with(pfctl), "route": with(route), "kill": kill,
	}}
}

// Left is what the fake itself still has of an environment.
func Left(h *fake.Host) func(driver.Spec) []string {
	return func(spec driver.Spec) (out []string) {
		out = drivertest.Remains(spec)
		var m State
		h.State(&m, func() bool {
			for name := range m.Jails {
				if name == "bakeoff-"+spec.Label {
					out = append(out, "jail "+name)
				}
			}
			for _, at := range m.Mounts {
				if strings.HasPrefix(at.At, spec.Dir+"/") {
					out = append(out, "mount "+at.At)
				}
			}
			for subject := range m.Rules {
				if subject == "jail:bakeoff-"+spec.Label {
					out = append(out, "rule of "+subject)
				}
			}
			return false
		})
		return out
	}
}

// Links are the interfaces beyond those that the host began with.
func Links(h *fake.Host) (out []string) {
	var m State
	h.State(&m, func() bool {
		for name, l := range m.Links {
			if l.Kind != "em" && (name != "bridge7" || len(l.Addrs) > 0) {
				out = append(out, name)
			}
		}
		return false
	})
	return out
}

func uname(c *fake.Call, _ *State) int {
	switch strings.Join(c.Argv[1:], " ") {
	case "-s":
		c.Printf("FreeBSD\n")
	case "-r":
		c.Printf("14.2-RELEASE\n")
	default:
		return c.Failf("illegal option")
	}
	return 0
}

func sysctl(c *fake.Call, m *State) int {
	name := c.Argv[len(c.Argv)-1]
	value, ok := map[string]string{"kern.racct.enable": "1", "kern.features.vimage": "1", "net.inet.ip.forwarding": "1",
		"compat.linux.osrelease": "5.15.0", "net.link.bridge.pfil_member": "1", "net.link.bridge.pfil_local_phys": "1",
		"net.link.bridge.pfil_onlyip": "1", "net.link.bridge.pfil_bridge": "0"}[name]
	if changed, is := m.Settings[name]; is {
		value, ok = changed, changed != ""
	}
	if len(c.Argv) != 3 || c.Argv[1] != "-n" || !ok {
		return c.Failf("unknown oid")
	}
	c.Printf("%s\n", value)
	return 0
}

// find finds a jail by name or number.
func (m *State) find(id string) (string, *Jail) {
	for name, j := range m.Jails {
		if name == id || strconv.Itoa(j.JID) == id {
			return name, j
		}
	}
	return "", nil
}

func jls(c *fake.Call, m *State) int {
	flags, rest, err := fake.Options(c.Argv[1:], "dhNnqSsvj:")
	if err != nil {
		return c.Failf("%v", err)
	}
	_, j := m.find(fake.Last(flags['j']))
	if j == nil {
		return c.Failf("jail %q not found", fake.Last(flags['j']))
	}
	for _, p := range rest {
		switch p {
		case "jid":
			c.Printf("%d\n", j.JID)
		case "ip4.addr":
			if j.Addr == "" {
				c.Printf("-\n")
			} else {
				c.Printf("%s\n", j.Addr)
			}
		default:
			return c.Failf("unknown parameter: %s", p)
		}
	}
	return 0
}

func ps(c *fake.Call, m *State) int {
	flags, _, err := fake.Options(c.Argv[1:], "J:o:")
	if err != nil {
		return c.Failf("%v", err)
	}
	name, j := m.find(fake.Last(flags['J']))
	if j == nil {
		return c.Failf("invalid jail id: %s", fake.Last(flags['J']))
	}
	pids, err := fake.PIDs(c.Ctx, place(name, j, "").Label)
	if err != nil {
		return c.Failf("%v", err)
	}
	for _, pid := range pids {
		parent, command := process(pid)
		var words []string
		for word := range strings.SplitSeq(fake.Last(flags['o']), ",") {
			switch word {
			case "pid=":
				words = append(words, strconv.Itoa(pid))
			case "ppid=":
				words = append(words, strconv.Itoa(parent))
			case "comm=":
				words = append(words, command)
			default:
				return c.Failf("%s: keyword not found", word)
			}
		}
		c.Printf("%s\n", strings.Join(words, " "))
	}
	return 0
}

// process is the parent of a process of this machine, and the name of its program. FreeBSD
// shows the program's own name, and Linux may show that of a thread.
func process(pid int) (parent int, command string) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, ""
	}
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		switch {
		case len(f) > 1 && f[0] == "Name:":
			command = f[1]
		case len(f) > 1 && f[0] == "PPid:":
			parent, _ = strconv.Atoi(f[1])
		}
	}
	return parent, command
}

// kill signals processes of this machine: those in jails are.
func kill(c *fake.Call) int { return c.Real(c.Argv...) }

// place is where the jail's processes really run.
func place(name string, j *Jail, rule string) fake.Place {
	p := fake.Place{Label: strings.TrimPrefix(name, "bakeoff-"), Root: j.Path, CPUSet: j.CPUs}
	if _, n, ok := strings.Cut(rule, "memoryuse:sigkill="); ok {
		n, _, _ = strings.Cut(n, "\n")
		bytes, _ := strconv.ParseInt(n, 10, 64)
		p.Memory = unit.Bytes(bytes)
	}
	return p
}

func jailProgram(c *fake.Call, m *State) int {
	flags, rest, err := fake.Options(c.Argv[1:], "cdf:iJ:lmn:qrRs:u:U:v")
	if err != nil {
		return c.Failf("%v", err)
	}
	switch {
	case flags['r'] != nil && len(flags) == 1 && len(rest) == 1:
		name, j := m.find(rest[0])
		if j == nil {
			return c.Failf("%q not found", rest[0])
		}
		if err := fake.Empty(place(name, j, "").Label); err != nil {
			return c.Failf("%v", err)
		}
		for key, l := range m.Links { // they return, and a name must then be free
			_, plain, inside := strings.Cut(key, " ")
			switch {
			case l.Jail != name:
			case inside && m.Links[plain] != nil:
				return c.Failf("interface %s returns from the jail, and the host has one with this name", plain)
			default:
				m.rekey(key, plain)
				l.Jail = ""
			}
		}
		delete(m.Jails, name)
		return 0
	case flags['c'] != nil && len(flags) == 1:
		return create(c, m, rest)
	}
	return c.Failf("usage")
}

func create(c *fake.Call, m *State, params []string) int {
	j := &Jail{JID: m.JID + 1}
	var name string
	persist := false
	for _, p := range params {
		key, value, _ := strings.Cut(p, "=")
		switch key {
		case "name":
			name = value
		case "path":
			j.Path = value
		case "persist":
			persist = true
		case "vnet":
			j.VNET = true
		case "vnet.interface":
			j.Link = value
		case "ip4.addr":
			j.Addr = value
		case "host.hostname", "enforce_statfs", "children.max":
		case "ip4", "ip6":
			if value != "disable" && value != "inherit" && value != "new" {
				return c.Failf("%s: unknown value %q", key, value)
			}
		default:
			return c.Failf("unknown parameter: %s", key)
		}
	}
	l := m.Links[j.Link]
	switch _, there := m.find(name); {
	case name == "" || name[0] == '0' || strings.Contains(name, "."):
		return c.Failf("invalid name %q", name)
	case there != nil:
		return c.Failf("jail %q already exists", name)
	case !filepath.IsAbs(j.Path) || !isDir(j.Path):
		return c.Failf("path %s: No such file or directory", j.Path)
	case !persist:
		return c.Failf("a jail without a command must persist")
	case j.Link != "" && (!j.VNET || l == nil || l.Jail != "" || l.Bridge != ""):
		return c.Failf("vnet.interface %s cannot be given to it", j.Link)
	case j.VNET && j.Addr != "":
		return c.Failf("vnet jails cannot have IP address restrictions")
	}
	if l != nil {
		m.rekey(j.Link, name+" "+j.Link)
		l.Jail, l.Addrs = name, nil
	}
	m.JID, m.Jails[name] = j.JID, j
	return 0
}

// jexec runs inside without holding the state: it takes as long as it takes.
func jexec(c *fake.Call) int {
	_, rest, err := fake.Options(c.Argv[1:], "ld:e:u:U:n")
	if err != nil || len(rest) < 2 {
		return c.Failf("usage: jexec [-l] [-u username | -U username] jail command ...: %v", err)
	}
	var m State
	var name string
	var j *Jail
	c.Host.State(&m, func() bool {
		name, j = m.find(rest[0])
		return false
	})
	if j == nil {
		return c.Failf("jail %q not found", rest[0])
	}
	return c.Inside(place(name, j, m.Rules["jail:"+name]), rest[1:]...)
}

// env is `env -i NAME=VALUE … COMMAND …`.
func env(c *fake.Call) int {
	args := c.Argv[1:]
	if len(args) == 0 || args[0] != "-i" {
		return c.Failf("usage")
	}
	n := slices.IndexFunc(args[1:], func(a string) bool { return !strings.Contains(a, "=") })
	if n < 0 {
		return 0
	}
	c.Env = args[1 : 1+n]
	return c.Command(c.Ctx, args[1+n:]...)
}

func cpuset(c *fake.Call, m *State) int {
	flags, rest, err := fake.Options(c.Argv[1:], "cl:n:gij:p:r:s:t:d:x:")
	_, j := m.find(fake.Last(flags['j']))
	cpus, cerr := probe.ParseCPUs(fake.Last(flags['l']))
	if err != nil || cerr != nil || len(rest) > 0 || j == nil {
		return c.Failf("cpuset: %v, %v", err, cerr)
	}
	j.CPUs = cpus
	return 0
}

var ruleForm = regexp.MustCompile(`^(jail:[^:]+):(memoryuse|vmemoryuse|pcpu|maxproc):(sigkill|deny|log)=[0-9]+[kmgt]?$`)

func rctl(c *fake.Call, m *State) int {
	args := c.Argv[1:]
	switch {
	case len(args) == 2 && args[0] == "-a":
		f := ruleForm.FindStringSubmatch(args[1])
		if f == nil {
			return c.Failf("invalid rule %q", args[1])
		}
		m.Rules[f[1]] += args[1] + "\n"
	case len(args) == 2 && args[0] == "-r": // all rules of a subject, or one
		subject := args[1]
		if f := ruleForm.FindStringSubmatch(subject); f != nil {
			subject = f[1]
		}
		all := strings.SplitAfter(m.Rules[subject], "\n")
		kept := slices.DeleteFunc(slices.Clone(all), func(rule string) bool {
			return subject == args[1] || rule == args[1]+"\n"
		})
		if m.Rules[subject] == "" || len(kept) == len(all) {
			return c.Failf("no rule matches %q", args[1])
		}
		if m.Rules[subject] = strings.Join(kept, ""); m.Rules[subject] == "" {
			delete(m.Rules, subject)
		}
	case len(args) == 2 && args[0] == "-u":
		name, ok := strings.CutPrefix(args[1], "jail:")
		if _, j := m.find(name); !ok || j == nil {
			return c.Failf("%q: No such process", args[1])
		}
		c.Printf("cputime=1\nmemoryuse=%d\nmaxproc=2\npcpu=0\n", m.Use)
	case len(args) == 1 && !strings.HasPrefix(args[0], "-"):
		if r := m.Rules[args[0]]; r != "" {
			c.Printf("%s", r)
		}
	default:
		return c.Failf("usage")
	}
	return 0
}

func isDir(at string) bool {
	s, err := os.Stat(at)
	return err == nil && s.IsDir()
}

func mount(c *fake.Call, m *State) int {
	flags, rest, err := fake.Options(c.Argv[1:], "adflpruvwo:t:F:")
	if err != nil {
		return c.Failf("%v", err)
	}
	if flags['p'] != nil && len(rest) == 0 {
		c.Printf("/dev/ada0p2\t\t/\t\t\tufs\trw\t\t1 1\n")
		for _, at := range m.Mounts {
			c.Printf("%s\t%s\t%s\trw\t0 0\n", at.From, strings.ReplaceAll(at.At, " ", `\040`), at.Kind)
		}
		return 0
	}
	if len(rest) != 2 || !isDir(rest[1]) {
		return c.Failf("%v: No such file or directory", rest)
	}
	kind, opts, from, at := fake.Last(flags['t']), fake.Last(flags['o']), rest[0], rest[1]
	known := map[string]string{"devfs": `ruleset=\d+`, "nullfs": `ro|rw|`, "tmpfs": `size=\d+|mode=\d+`, "linprocfs": ``,
		"linsysfs": ``, "fdescfs": `linrdlnk|`}
	form, ok := known[kind]
	if !ok || !regexp.MustCompile("^("+form+")$").MatchString(opts) {
		return c.Failf("%s: mount option <%s> is unknown", kind, opts)
	}
	// On this machine it is the nearest there is.
	argv := []string{"mount", "--bind", from, at}
	switch kind {
	case "devfs":
		argv = []string{"sh", "-c", `mount -t tmpfs -o mode=0755 bakeoff "$0" && cp -a /dev/null /dev/zero /dev/full ` +
			`/dev/random /dev/urandom "$0" && ln -s /proc/self/fd "$0/fd"`, at}
	case "tmpfs":
		argv = []string{"mount", "-t", "tmpfs", "-o", opts, "bakeoff", at}
	case "linprocfs":
		argv = []string{"mount", "-t", "proc", "proc", at}
	case "linsysfs":
		argv = []string{"mount", "--bind", "-o", "ro", "/sys", at}
	case "fdescfs": // the link in devfs
		argv = []string{"true"}
	}
	if err := fake.Here(context.WithoutCancel(c.Ctx), argv...); err != nil {
		return c.Failf("%v", err)
	}
	m.Mounts = append(m.Mounts, Mount{kind, from, at})
	return 0
}

func umount(c *fake.Call, m *State) int {
	flags, rest, err := fake.Options(c.Argv[1:], "afnNvF:h:t:")
	if err != nil || len(rest) != 1 {
		return c.Failf("%v", err)
	}
	i := slices.IndexFunc(m.Mounts, func(at Mount) bool { return at.At == rest[0] })
	if i < 0 {
		return c.Failf("%s: not a file system root directory", rest[0])
	}
	if slices.ContainsFunc(m.Mounts, func(at Mount) bool { return strings.HasPrefix(at.At, rest[0]+"/") }) &&
		flags['f'] == nil {
		return c.Failf("%s: Device busy", rest[0])
	}
	// What the fake did not mount cannot be unmounted either.
	fake.Here(context.WithoutCancel(c.Ctx), "umount", "-l", rest[0])
	m.Mounts = slices.Delete(m.Mounts, i, i+1)
	return 0
}

func chflags(c *fake.Call, _ *State) int {
	flags, rest, err := fake.Options(c.Argv[1:], "fhvxHLPR")
	if err != nil || flags['R'] == nil || len(rest) != 2 || rest[0] != "0" {
		return c.Failf("usage: %v", err)
	}
	if _, err := os.Lstat(rest[1]); err != nil {
		return c.Failf("%v", err)
	}
	return 0
}

// zfs has one dataset with one snapshot, whose content is in the fake's
// directory.
func zfs(c *fake.Call, m *State) int {
	args := c.Argv[1:]
	const snapshot = "tank/jails/base@clean"
	switch {
	case slices.Equal(args, []string{"list", "-H", "-t", "snapshot", "-o", "name", snapshot}):
		c.Printf("%s\n", snapshot)
	case slices.Equal(args, []string{"list", "-H", "-t", "filesystem", "-o", "name,mountpoint"}):
		c.Printf("tank\t/tank\n")
		for name, at := range m.Clones {
			c.Printf("%s\t%s\n", name, at)
		}
	case len(args) == 5 && args[0] == "clone" && args[1] == "-o" && args[3] == snapshot:
		at, ok := strings.CutPrefix(args[2], "mountpoint=")
		if m.Clones[args[4]] != "" || !ok {
			return c.Failf("cannot create %q: dataset already exists", args[4])
		}
		if err := fake.Here(context.WithoutCancel(c.Ctx), "cp", "-Rp", filepath.Join(c.Host.Dir, "base"), at); err != nil {
			return c.Failf("%v", err)
		}
		m.Clones[args[4]] = at
	case len(args) == 7 && slices.Equal(args[:6], []string{"list", "-H", "-t", "filesystem", "-o", "mounted"}):
		if m.Clones[args[6]] == "" {
			return c.Failf("cannot open %q: dataset does not exist", args[6])
		}
		c.Printf("%s\n", map[bool]string{true: "no", false: "yes"}[slices.Contains(m.Unmounted, args[6])])
	case len(args) == 2 && args[0] == "mount":
		i := slices.Index(m.Unmounted, args[1])
		if i < 0 {
			return c.Failf("cannot mount %q: filesystem already mounted", args[1])
		}
		at := m.Clones[args[1]]
		if err := errors.Join(os.Remove(at), os.Rename(at+".unmounted", at)); err != nil {
			return c.Failf("%v", err)
		}
		m.Unmounted = slices.Delete(m.Unmounted, i, i+1)
	case len(args) == 2 && args[0] == "destroy":
		at := m.Clones[args[1]]
		if at == "" {
			return c.Failf("cannot open %q: dataset does not exist", args[1])
		}
		if slices.ContainsFunc(m.Mounts, func(x Mount) bool { return strings.HasPrefix(x.At, at+"/") }) {
			return c.Failf("cannot unmount %q: pool or dataset is busy", at)
		}
		if err := os.RemoveAll(at); err != nil {
			return c.Failf("%v", err)
		}
		delete(m.Clones, args[1])
	default:
		return c.Failf("unrecognized command %q", args)
	}
	return 0
}
