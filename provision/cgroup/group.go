package cgroup

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/base/sleep"
	"bakeoff/base/unit"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/probe"
)

// Limits are the limits of a group; the zero value of each means no limit.
type Limits struct {
	CPUSet []int      // exactly these CPUs of the host
	Memory unit.Bytes // without swap
	Quota  float64    // CPUs' worth of time, as 0.5
	IO     IO         // of one disk
}

// Group is the control group of one environment, in every hierarchy that it
// needs.
type Group struct {
	host   conn.Conn
	files  conn.Files
	layout Layout
	label  string
	name   string   // path in every hierarchy: bakeoff/<label> unless adopted from a process
	dirs   []string // existing directories, one a hierarchy
	outer  *Group   // see Within
	mu     sync.Mutex
	limits facts.Limits // guarded by mu once others use the group
	swap   unit.Bytes   // beyond the limit of memory: see SetSwap
}

// Create creates the group bakeoff/<label> and sets its limits. It fails if the
// group exists. Limits for which the host has no controller are listed in
// Limits().NotEnforced.
func (l Layout) Create(ctx context.Context, host conn.Conn, label string, limits Limits) (*Group, error) {
	g, err := l.group(host, label)
	if err != nil {
		return nil, err
	}
	if err := checkQuota(limits.Quota); err != nil {
		return nil, fault.Op("control group "+label, err)
	}
	if found, err := g.exists(ctx); err != nil {
		return nil, err
	} else if len(found) > 0 {
		return nil, fault.New(fault.Lab, "control group %s exists already; run `bakeoff clean`", found[0])
	}
	if err := g.make(ctx, limits); err != nil {
		g.discard(ctx)
		return nil, fault.Op("control group "+label, err)
	}
	return g, nil
}

// Adopt returns the group bakeoff/<label> that another program, such as a
// container runtime, has created. limits is what that program was asked to
// enforce; Adopt sets quota and I/O itself. If the group does not exist the
// error is of kind fault.NotFound.
func (l Layout) Adopt(ctx context.Context, host conn.Conn, label string, limits Limits) (*Group, error) {
	g, err := l.group(host, label)
	if err != nil {
		return nil, err
	}
	if g.dirs, err = g.exists(ctx); err != nil {
		return nil, err
	}
	if len(g.dirs) == 0 {
		return nil, fault.New(fault.NotFound, "no control group %s/%s", parent, label)
	}
	return g, g.take(ctx, limits)
}

// take records what another program has set, and sets the rest.
func (g *Group) take(ctx context.Context, limits Limits) error {
	g.note(limits)
	if err := checkQuota(limits.Quota); err != nil {
		return err
	}
	if err := g.limitQuota(ctx, limits.Quota); err != nil {
		return err
	}
	return g.limitIO(ctx, limits.IO)
}

// AdoptOf returns the group of process pid, which a container engine has
// created, with the environment's label. id, the engine's identifier of the
// container, must be part of the group's name; otherwise the error is of kind
// fault.Lab.
func (l Layout) AdoptOf(ctx context.Context, host conn.Conn, label string, pid int, id string,
	limits Limits) (*Group, error) {
	g, err := l.group(host, label)
	if err != nil {
		return nil, err
	}
	text, err := g.files.ReadFile(ctx, fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, fault.Op("control group "+label, err)
	}
	if g.name = groupOf(string(text)); id == "" || !strings.Contains(g.name, id) {
		return nil, fault.New(fault.Lab,
			"control group %s: process %d is in the group %q instead of that of the container %s: does the engine "+
				"run on this host?", label, pid, g.name, id)
	}
	if g.dirs, err = g.exists(ctx); err != nil {
		return nil, err
	}
	return g, g.take(ctx, limits)
}

// groupOf reads from /proc/PID/cgroup (cgroups(7)) the group of a process, in
// the hierarchy that limits memory or in version 2. "" is the root.
func groupOf(text string) string {
	name := ""
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 || !strings.HasPrefix(f[2], "/") || path.Clean(f[2]) != f[2] {
			continue
		}
		if slices.Contains(strings.Split(f[1], ","), "memory") || f[1] == "" && name == "" {
			name = strings.TrimPrefix(f[2], "/")
		}
	}
	return name
}

// Find returns the directories of the group bakeoff/<label> in all hierarchies
// of the host; none if the group does not exist.
func (l Layout) Find(ctx context.Context, host conn.Conn, label string) ([]string, error) {
	g, err := l.group(host, label)
	if err != nil {
		return nil, err
	}
	return g.exists(ctx)
}

// Reserve creates the directories of the group bakeoff/<label> for a program
// that will create the group, or others in it, in hierarchies of its choice. As
// long as one exists, no other controller removes the common parent. The
// hierarchy at except is left out. Errors are left to that program.
func (l Layout) Reserve(ctx context.Context, host conn.Conn, label, except string) error {
	g, err := l.group(host, label)
	if err != nil {
		return err
	}
	for _, h := range l.hierarchies() {
		if h != except {
			_ = g.mkdir(ctx, path.Join(h, parent))
		}
	}
	return ctx.Err()
}

// Extend creates the group's directory in one more hierarchy, which this
// package does not limit.
func (g *Group) Extend(ctx context.Context, hierarchy string) error {
	return g.mkdir(ctx, path.Join(hierarchy, parent))
}

// Labels returns the labels of all groups of bakeoff on the host, sorted.
func (l Layout) Labels(ctx context.Context, host conn.Conn) ([]string, error) {
	var out []string
	for _, h := range l.hierarchies() {
		g := Group{files: conn.FilesOf(host)}
		names, err := g.siblings(ctx, path.Join(h, parent, "any"))
		if err != nil {
			return nil, fault.Op("control groups", err)
		}
		for _, n := range names {
			if name.ValidLabel(n) && !kernelFile(n) {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func (l Layout) group(host conn.Conn, label string) (*Group, error) {
	if !name.ValidLabel(label) {
		return nil, fault.New(fault.Invalid, "control group: %q is not a label: use 1 to 40 of the characters a-z, 0-9 "+
			"and -", label)
	}
	return &Group{host: host, files: conn.FilesOf(host), layout: l, label: label, name: path.Join(parent, label)}, nil
}

// exists lists the group's existing directories.
func (g *Group) exists(ctx context.Context) ([]string, error) {
	var found []string
	for _, h := range g.layout.hierarchies() {
		dir := path.Join(h, g.name)
		ok, err := g.there(ctx, dir)
		if err != nil {
			return nil, fault.Op("control group "+g.label, err)
		}
		if ok {
			found = append(found, dir)
		}
	}
	return found, nil
}

// there reports whether a directory of a group exists. On this machine, to ask for it
// costs less than a list of all groups. If it is being removed, that may fail, and then
// the list decides, as on another machine, where every question takes a round trip.
func (g *Group) there(ctx context.Context, dir string) (bool, error) {
	if _, ok := g.host.(local.Conn); ok {
		_, err := g.files.ReadDir(ctx, dir)
		if err == nil || fault.Is(err, fault.NotFound) {
			return err == nil, nil
		}
	}
	names, err := g.siblings(ctx, dir)
	return slices.Contains(names, path.Base(dir)), err
}

// The common parent is created by the first controller and removed by the last
// one, possibly between two accesses. What fails for that reason is retried
// this often, at first after pause and then ever later: on a busy machine
// whoever removes something may be kept waiting in the middle of it.
const (
	tries     = 20
	pause     = time.Millisecond
	lastPause = 50 * time.Millisecond
)

// again waits for the try after try n, the first of which is 0.
func again(ctx context.Context, n int) bool { return sleep.For(ctx, min(pause<<n, lastPause)) == nil }

// passing tells whether an error may have that reason: something did not exist,
// or a program failed and found afterwards that it exists.
func passing(err error) bool {
	var exit *conn.ExitError
	return fault.Is(err, fault.NotFound) || errors.As(err, &exit)
}

// siblings lists the groups next to the one at dir, including it. Without a
// parent there are none.
func (g *Group) siblings(ctx context.Context, dir string) (names []string, err error) {
	for n := range tries {
		names, err = g.files.ReadDir(ctx, path.Dir(dir))
		if fault.Is(err, fault.NotFound) {
			return nil, nil
		}
		if err == nil || !passing(err) || !again(ctx, n) {
			break
		}
	}
	return names, err
}

// mkdir creates the group's directory in the common parent. Nobody removes the
// parent while it has the directory.
func (g *Group) mkdir(ctx context.Context, up string) (err error) {
	for n := range tries {
		if err = g.files.Mkdir(ctx, up); err == nil {
			err = g.files.Mkdir(ctx, path.Join(up, g.label))
		}
		if err == nil || !passing(err) || !again(ctx, n) {
			break
		}
	}
	return fault.WithFix(err, "control groups need root")
}

// make creates the directories and sets the limits.
func (g *Group) make(ctx context.Context, limits Limits) error {
	g.dirs = nil
	for _, h := range g.layout.used(limits) {
		up := path.Join(h, parent)
		if err := g.mkdir(ctx, up); err != nil {
			return err
		}
		g.dirs = append(g.dirs, path.Join(up, g.label))
		if err := g.prepare(ctx, h, up, limits); err != nil {
			return err
		}
	}
	g.note(limits)
	if err := g.limitCPUs(ctx, limits.CPUSet); err != nil {
		return err
	}
	if err := g.limitMemory(ctx, limits.Memory); err != nil {
		return err
	}
	if err := g.limitQuota(ctx, limits.Quota); err != nil {
		return err
	}
	return g.limitIO(ctx, limits.IO)
}

// prepare prepares the common parent for groups with limits.
func (g *Group) prepare(ctx context.Context, hierarchy, up string, limits Limits) error {
	if hierarchy == g.layout.V1["cpuset"] {
		if err := g.inherit(ctx, hierarchy, up); err != nil {
			return err
		}
	}
	if hierarchy != g.layout.V2 {
		return nil
	}
	needed := map[string]bool{"cpu": limits.Quota > 0, "cpuset": len(limits.CPUSet) > 0, "memory": limits.Memory > 0,
		"io": limits.IO.wanted()}
	// Count memory also if it is not limited, as version 1 does.
	for _, c := range []string{"cpu", "cpuset", "memory", "io"} {
		if g.layout.V1[nameV1(c)] != "" || !slices.Contains(g.layout.V2Controllers, c) || !needed[c] && c != "memory" {
			continue
		}
		if err := g.grant(ctx, c, hierarchy, up); err != nil && needed[c] {
			return err
		}
	}
	return nil
}

// grant enables a controller of version 2 in each directory on the way down.
func (g *Group) grant(ctx context.Context, controller string, dirs ...string) error {
	for _, dir := range dirs {
		if err := g.files.WriteFile(ctx, path.Join(dir, "cgroup.subtree_control"), []byte("+"+controller)); err != nil {
			return fault.WithFix(err, "version 2 enables controllers only in groups whose parents have no processes: "+
				"run on the host itself, or move its processes out of "+dir)
		}
	}
	return nil
}

// inherit gives the group at dir the CPUs and memory nodes of its parent. A new
// group of version 1 has none at all, and then accepts no process.
func (g *Group) inherit(ctx context.Context, parent, dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		b, err := g.files.ReadFile(ctx, path.Join(parent, name))
		if err != nil {
			return err
		}
		have, err := g.files.ReadFile(ctx, path.Join(dir, name))
		if err == nil && strings.TrimSpace(string(have)) == "" { // otherwise groups may depend on it
			err = g.files.WriteFile(ctx, path.Join(dir, name), b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// note records the limits that are enforced.
func (g *Group) note(limits Limits) {
	g.limits = facts.Limits{}
	lacks := g.layout.Lacks()
	if n := len(limits.CPUSet); n > 0 && lacks["cpus"] == "" {
		g.limits.CPUs, g.limits.CPUSet = &n, slices.Clone(limits.CPUSet)
		delete(lacks, "cpus")
	}
	if limits.Memory > 0 && lacks["memory"] == "" {
		g.limits.Memory = &limits.Memory
		delete(lacks, "memory")
	}
	if len(lacks) > 0 {
		g.limits.NotEnforced = lacks
	}
}

func (g *Group) limitCPUs(ctx context.Context, cpus []int) error {
	dir, readBack := path.Join(g.layout.V2, parent, g.label), "cpuset.cpus.effective"
	if v1 := g.layout.V1["cpuset"]; v1 != "" {
		dir, readBack = path.Join(v1, parent, g.label), "cpuset.cpus"
		if err := g.inherit(ctx, path.Join(v1, parent), dir); err != nil {
			return err
		}
	}
	if g.limits.CPUSet == nil {
		return nil
	}
	want := probe.FormatCPUs(cpus)
	if err := g.files.WriteFile(ctx, path.Join(dir, "cpuset.cpus"), []byte(want)); err != nil {
		return fault.New(fault.Lab, "CPUs %s: %w", want, err)
	}
	got, err := g.files.ReadFile(ctx, path.Join(dir, readBack))
	if err != nil {
		return err
	}
	// Version 2 accepts any request and grants what exists.
	if have, err := probe.ParseCPUs(strings.TrimSpace(string(got))); err != nil || probe.FormatCPUs(have) != want {
		return fault.New(fault.Lab, "CPUs %s: the host granted %q", want, strings.TrimSpace(string(got)))
	}
	return nil
}

func (g *Group) limitMemory(ctx context.Context, memory unit.Bytes) error {
	if g.limits.Memory == nil {
		return nil
	}
	value := []byte(strconv.FormatInt(int64(memory), 10))
	v1 := g.layout.V1["memory"]
	dir := path.Join(v1, parent, g.label)
	// name, value, required: swap may not be accounted.
	settings := []struct {
		name  string
		value []byte
		must  bool
	}{{"memory.limit_in_bytes", value, true}, {"memory.memsw.limit_in_bytes", value, false},
		{"memory.swappiness", []byte("0"), false}}
	if v1 == "" {
		dir = path.Join(g.layout.V2, parent, g.label)
		settings = settings[:2]
		settings[0].name = "memory.max"
		settings[1].name, settings[1].value = "memory.swap.max", []byte("0")
	}
	for _, s := range settings {
		err := g.files.WriteFile(ctx, path.Join(dir, s.name), s.value)
		if err != nil && (s.must || !fault.Is(err, fault.NotFound)) {
			return fault.New(fault.Lab, "memory %s: %w", memory, err)
		}
	}
	return nil
}

// Path is the group's name in each hierarchy, as container runtimes take it.
func (g *Group) Path() string { return Path(g.label) }

// Path is the name of the group for a label in each hierarchy.
func Path(label string) string { return "/" + parent + "/" + label }

// Dirs are the group's directories, one per hierarchy.
func (g *Group) Dirs() []string { return slices.Clone(g.dirs) }

// Limits returns the limits that are enforced.
func (g *Group) Limits() facts.Limits {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limits
}

// EnterArgs are the arguments with which `bakeoff-agent enter` joins the group.
func (g *Group) EnterArgs() []string {
	var out []string
	for _, d := range g.dirs {
		out = append(out, "--cgroup", d)
	}
	return out
}

// StartDir is the directory for conn.Cmd.Group: programs start in that version
// 2 group, and EnterArgs has nothing to do there. "" without version 2.
func (g *Group) StartDir() string { return g.v2Dir() }

// Add moves a running process, with all its threads, into the group.
func (g *Group) Add(ctx context.Context, pid int) error {
	for _, d := range g.dirs {
		if err := g.files.WriteFile(ctx, path.Join(d, "cgroup.procs"), []byte(strconv.Itoa(pid))); err != nil {
			return fault.Op(fmt.Sprintf("control group %s: add process %d", g.label, pid), err)
		}
	}
	return nil
}

// PIDs lists the processes in the group and in groups below it, sorted.
func (g *Group) PIDs(ctx context.Context) ([]int, error) {
	var out []int
	for _, d := range g.dirs {
		pids, err := g.pidsBelow(ctx, d, 0)
		if err != nil {
			return nil, err
		}
		out = append(out, pids...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Occupied reports whether a process is in the group or in a group below it. It
// reads less than PIDs if there is one.
func (g *Group) Occupied(ctx context.Context) (bool, error) {
	for _, d := range g.dirs {
		if b, err := g.files.ReadFile(ctx, path.Join(d, "cgroup.procs")); err == nil && len(b) > 0 {
			return true, nil
		}
	}
	pids, err := g.PIDs(ctx)
	return len(pids) > 0, err
}

// went tells whether err means that a group's directory does not exist any more
// or is being removed. Files of such a directory fail with other errors, and
// the directory stays visible for a moment.
func (g *Group) went(ctx context.Context, dir string, err error) bool {
	if err == nil || fault.Is(err, fault.NotFound) {
		return err != nil
	}
	for n := range tries {
		names, err := g.siblings(ctx, dir)
		if err != nil {
			return false
		}
		if !slices.Contains(names, path.Base(dir)) {
			return true
		}
		if !again(ctx, n) {
			break
		}
	}
	return false
}

// depth bounds how many levels of groups are followed below the group.
const depth = 8

func (g *Group) pidsBelow(ctx context.Context, dir string, level int) ([]int, error) {
	b, err := g.files.ReadFile(ctx, path.Join(dir, "cgroup.procs"))
	if g.went(ctx, dir, err) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Op("control group "+g.label, err)
	}
	var out []int
	for _, f := range strings.Fields(string(b)) {
		if n, err := strconv.Atoi(f); err == nil && n > 0 { // 0 is a process that we cannot see
			out = append(out, n)
		}
	}
	below, err := g.below(ctx, dir)
	if err != nil || level == depth {
		return out, err
	}
	for _, d := range below {
		more, err := g.pidsBelow(ctx, d, level+1)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// below lists the groups in a group: its entries that have a cgroup.procs.
// The kernel's own files all have a dot in their names or are known.
func (g *Group) below(ctx context.Context, dir string) ([]string, error) {
	names, err := g.files.ReadDir(ctx, dir)
	if g.went(ctx, dir, err) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Op("control group "+g.label, err)
	}
	var out []string
	for _, n := range names {
		if kernelFile(n) {
			continue
		}
		if _, err := g.files.ReadFile(ctx, path.Join(dir, n, "cgroup.procs")); err == nil {
			out = append(out, path.Join(dir, n))
		}
	}
	return out, nil
}

func kernelFile(name string) bool {
	head, _, dotted := strings.Cut(name, ".")
	if dotted {
		return head == "cgroup" || head == "io" || slices.Contains(controllers, head)
	}
	return slices.Contains([]string{"tasks", "notify_on_release", "release_agent"}, name)
}
