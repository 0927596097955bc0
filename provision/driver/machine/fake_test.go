package machine

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/driver/fake"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
)

// bare is a fake machine with another system. Its programs really run on this machine, with
// the limits that the fake's commands ask for.
type bare struct {
	kernel string // uname -s
	agent  string
	racct  bool
}

// heldKey is the key of the limits, in the context of a command that others have begun.
type heldKey struct{}

func held(ctx context.Context) fake.Place {
	p, _ := ctx.Value(heldKey{}).(fake.Place)
	return p
}

// labels are those of the control groups that the fake has made.
type labels struct{ All []string }

func (b bare) host(dir string) *fake.Host {
	programs := map[string]fake.Program{"uname": b.uname, "env": b.env, "sh": b.sh}
	switch b.kernel {
	case "FreeBSD":
		programs["cpuset"], programs["sysctl"] = b.cpuset, b.sysctl
	case "NetBSD":
		programs["schedctl"] = b.schedctl
	case "DragonFly":
		programs["usched"] = b.usched
	case "SunOS":
		programs["psrset"] = b.psrset
	}
	if b.kernel != "SunOS" {
		programs["ps"] = b.ps
	}
	return &fake.Host{Dir: dir, Passed: []string{"mkdir", "rm", "cat", "ls", "test"}, Programs: programs}
}

func (b bare) uname(c *fake.Call) int {
	if !slices.Equal(c.Argv[1:], []string{"-s"}) {
		return c.Failf("illegal option")
	}
	c.Printf("%s\n", b.kernel)
	return 0
}

func (b bare) sysctl(c *fake.Call) int {
	if !slices.Equal(c.Argv[1:], []string{"-n", "kern.racct.enable"}) {
		return c.Failf("unknown oid")
	}
	c.Printf("%d\n", map[bool]int{true: 1}[b.racct])
	return 0
}

// on runs a command of the fake on these CPUs.
func on(c *fake.Call, cpus []int, argv []string) int {
	p := held(c.Ctx)
	p.CPUSet = cpus
	return c.Command(context.WithValue(c.Ctx, heldKey{}, p), argv...)
}

func (b bare) cpuset(c *fake.Call) int {
	flags, rest, err := fake.Options(c.Argv[1:], "cl:n:gij:p:r:s:t:d:x:")
	cpus, cerr := probe.ParseCPUs(fake.Last(flags['l']))
	if err != nil || cerr != nil || len(flags) != 1 || len(rest) == 0 {
		return c.Failf("usage: %v, %v", err, cerr)
	}
	return on(c, cpus, rest)
}

var oneByOne = regexp.MustCompile(`^[0-9]+(,[0-9]+)*$`)

func (b bare) schedctl(c *fake.Call) int {
	flags, rest, err := fake.Options(c.Argv[1:], "A:C:P:p:t:")
	list := fake.Last(flags['A'])
	cpus, cerr := probe.ParseCPUs(list)
	if err != nil || cerr != nil || !oneByOne.MatchString(list) || len(flags) != 1 || len(rest) == 0 {
		return c.Failf("usage: %v, %v", err, cerr)
	}
	return on(c, cpus, rest)
}

func (b bare) usched(c *fake.Call) int {
	if len(c.Argv) < 3 || !strings.HasPrefix(c.Argv[1], ":") {
		return c.Failf("usage")
	}
	mask, err := strconv.ParseUint(c.Argv[1][1:], 0, 64)
	if err != nil || mask == 0 {
		return c.Failf("bad mask %q", c.Argv[1])
	}
	var cpus []int
	for ; mask != 0; mask &= mask - 1 {
		cpus = append(cpus, bits.TrailingZeros64(mask))
	}
	return on(c, cpus, c.Argv[2:])
}

// theSet is the processor set of the fake.
const theSet = "user processor set 1: processors 0 1\n"

func (b bare) psrset(c *fake.Call) int {
	switch {
	case len(c.Argv) == 3 && c.Argv[1] == "-i" && c.Argv[2] == "1":
		c.Printf(theSet)
		return 0
	case len(c.Argv) > 3 && c.Argv[1] == "-e" && c.Argv[2] == "1":
		return on(c, []int{0, 1}, c.Argv[3:])
	}
	return c.Failf("cannot query processor set %q: Invalid argument", c.Argv[1:])
}

// sh knows the scripts of the driver that call commands of the system, and executes all
// others.
func (b bare) sh(c *fake.Call) int {
	if len(c.Argv) < 3 || c.Argv[1] != "-c" {
		return c.Real(c.Argv...)
	}
	script := c.Argv[2]
	switch {
	case script == illumosProcesses && b.kernel == "SunOS":
		b.pargs(c)
		return 0
	case script == rule && b.kernel == "FreeBSD":
		n, err := strconv.ParseInt(c.Argv[4], 10, 64)
		if err != nil || !b.racct {
			return c.Failf("rctl: %v", err)
		}
		p := held(c.Ctx)
		p.Memory = unit.Bytes(n)
		return c.Command(context.WithValue(c.Ctx, heldKey{}, p), c.Argv[5:]...)
	case strings.HasPrefix(script, `pbind -b "$1" $$`) && b.kernel == "SunOS":
		n, err := strconv.Atoi(c.Argv[4])
		if err != nil {
			return c.Failf("pbind: %v", err)
		}
		return on(c, []int{n}, c.Argv[5:])
	}
	return c.Real(c.Argv...)
}

// env executes a program, held to what the commands before it asked for.
func (b bare) env(c *fake.Call) int {
	p := held(c.Ctx)
	if p.CPUSet == nil && p.Memory == 0 {
		return c.Real(c.Argv...)
	}
	for _, v := range c.Argv {
		if _, text, ok := strings.Cut(v, "BAKEOFF_ENVIRONMENT="); ok {
			p.Label = strings.TrimSuffix(text, ":")
		}
	}
	var all labels
	if err := c.Host.State(&all, func() bool {
		known := slices.Contains(all.All, p.Label)
		all.All = append(all.All, p.Label)
		return !known
	}); err != nil {
		return c.Failf("%v", err)
	}
	p.Agent = b.agent
	return c.Inside(p, c.Argv...)
}

// ps prints this machine's processes as the BSDs and macOS do.
func (b bare) ps(c *fake.Call) int {
	want := "ps -axeww -o pid= -o ppid= -o command="
	if b.kernel == "Darwin" {
		want = "ps -axEww -o pid= -o ppid= -o command="
	}
	if strings.Join(c.Argv, " ") != want {
		return c.Failf("usage")
	}
	eachProcess(func(pid, parent, args, env string) { c.Printf("%5s %5s %s %s\n", pid, parent, env, args) })
	return 0
}

// pargs prints them as pargs and ps of illumos do.
func (b bare) pargs(c *fake.Call) {
	eachProcess(func(pid, _, args, env string) {
		c.Printf("%s:\t%s\n", pid, args)
		for i, v := range strings.Fields(env) {
			c.Printf("envp[%d]: %s\n", i, v)
		}
		c.Printf("\n")
	})
	c.Printf("%s\n", listed)
	eachProcess(func(pid, parent, args, _ string) { c.Printf("%5s %5s %.80s\n", pid, parent, args) })
}

func eachProcess(f func(pid, parent, args, env string)) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		text := func(name string) string {
			b, _ := os.ReadFile(filepath.Join(dir, name))
			return strings.Join(strings.Fields(string(bytes.ReplaceAll(b, []byte{0}, []byte{' '}))), " ")
		}
		stat := text("stat")
		if after := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]); len(after) > 1 && after[0] != "Z" {
			f(filepath.Base(dir), after[1], text("cmdline"), text("environ"))
		}
	}
}

// left is what this machine still has of an environment.
func left(spec driver.Spec) []string {
	out := drivertest.Remains(driver.Spec{Label: "no-group-is-the-driver's", Dir: spec.Dir})
	eachProcess(func(pid, _, args, env string) {
		if strings.Contains(env, Mark(spec.Label)) || strings.Contains(args, spec.Dir+"/tmp") {
			out = append(out, "process "+pid+" "+args)
		}
	})
	return out
}

// folders is the driver on a system where volumes are folders.
type folders struct{ Driver }

func (d folders) Doc() driver.Doc {
	doc := d.Driver.Doc()
	doc.Backings = []string{volume.Dir}
	return doc
}

func (d folders) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	spec.Watch = false // it is not reached over SSH
	return d.Driver.Create(ctx, host, spec)
}

// onFake runs the suite on a fake of a system, with the limits that it has.
func onFake(t *testing.T, b bare, without map[string]string) {
	if !testing.Short() && os.Getuid() != 0 {
		t.Skip("needs root: the fake holds programs to limits with control groups")
	}
	dir := fake.Dir(t)
	if b.agent = filepath.Join(dir, "bakeoff-agent"); !drivertest.Victim() && !testing.Short() {
		if err := suite.BuildAgent(b.agent); err != nil {
			t.Fatal(err)
		}
	}
	h := b.host(dir)
	t.Cleanup(func() {
		var all labels
		h.State(&all, func() bool { return false })
		for _, l := range all.All {
			if err := fake.Empty(l); err != nil {
				t.Errorf("the group of the fake: %v", err)
			}
		}
	})
	drivertest.Run(t, folders{}, drivertest.Options{Host: h, Agent: b.agent, Left: left, Without: without,
		Name: b.kernel})
}

func TestFreeBSD(t *testing.T) { onFake(t, bare{kernel: "FreeBSD", racct: true}, without) }
func TestOpenBSD(t *testing.T) { onFake(t, bare{kernel: "OpenBSD"}, without) }
func TestNetBSD(t *testing.T)  { onFake(t, bare{kernel: "NetBSD"}, without) }
func TestIllumos(t *testing.T) { onFake(t, bare{kernel: "SunOS"}, without) }

// Two more systems differ from these only in what holds programs to CPUs and lists them.
func TestDragonFly(t *testing.T) { onFake(t, bare{kernel: "DragonFly"}, withoutContract()) }
func TestMacOS(t *testing.T)     { onFake(t, bare{kernel: "Darwin"}, withoutContract()) }

func withoutContract() map[string]string {
	out := maps.Clone(without)
	out["contract"] = "takes seconds, and is the same as on NetBSD and OpenBSD"
	return out
}

// What a system cannot hold is refused, unless the lab file takes the machine as it is.
func TestLimits(t *testing.T) {
	here, err := probe.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	all := make([]int, len(here))
	for _, tt := range []struct {
		kernel  string
		cpus    []int
		memory  unit.Bytes
		quota   float64
		options param.Values
		volume  string
		says    string // "": accepted
	}{
		{kernel: "Linux", cpus: []int{0}},
		{kernel: "Linux", cpus: []int{0}, memory: unit.GiB, says: "limit for memory"},
		{kernel: "Linux", cpus: []int{0}, memory: unit.GiB, options: param.Values{optAsIs: "true"}},
		{kernel: "Linux", cpus: []int{0}, memory: unit.GiB, options: param.Values{optReboot: "true"}},
		{kernel: "Linux", cpus: []int{0}, quota: .5, says: "limit for quota"},
		{kernel: "Linux", cpus: []int{0}, volume: volume.Tmpfs},
		{kernel: "OpenBSD", cpus: all},
		{kernel: "OpenBSD", cpus: all[:0:0], says: "CPU set is empty"},
		{kernel: "FreeBSD", cpus: []int{0}, memory: unit.GiB, says: "kern.racct.enable"},
		{kernel: "FreeBSD", cpus: []int{0}, volume: volume.Tmpfs, says: "backing"},
		{kernel: "SunOS", cpus: []int{0}, memory: unit.GiB, says: "limit for memory"},
		{kernel: "SunOS", cpus: []int{0, 1}, options: param.Values{optSet: "1"}},
		{kernel: "SunOS", cpus: []int{0}, options: param.Values{optSet: "1"}, says: "has 2 CPUs, but the limit cpus is 1"},
		{kernel: "SunOS", cpus: []int{0}, options: param.Values{optSet: "7"}, says: "psrset -i lists"},
		{kernel: "SunOS", cpus: []int{0}, options: param.Values{optSet: "bench"}, says: "resource pool bench"},
		{kernel: "FreeBSD", cpus: []int{0}, options: param.Values{optSet: "1"}, says: "only on illumos"},
		{kernel: "Plan9", cpus: []int{0}, says: "does not know"},
	} {
		spec := driver.Spec{Label: "limits", Dir: t.TempDir(), CPUs: len(tt.cpus), CPUSet: tt.cpus, Memory: tt.memory,
			Quota: tt.quota, Options: tt.options, Agent: "/agent"}
		if tt.volume != "" {
			spec.Volumes = []volume.Volume{{Path: "/data", Backing: tt.volume, Size: unit.MiB}}
		}
		h := bare{kernel: tt.kernel}.host(t.TempDir())
		err := Driver{}.Validate(spec)
		if err == nil {
			err = Driver{}.ValidateOn(t.Context(), h, spec)
		}
		says := fmt.Sprint(err) + fault.Fix(err)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(says, tt.says) {
			t.Errorf("%s %v %v %v: %v, want %q", tt.kernel, tt.cpus, tt.memory, tt.options, err, tt.says)
		}
	}
	if len(here) > 1 {
		h := bare{kernel: "OpenBSD"}.host(t.TempDir())
		err := Driver{}.ValidateOn(t.Context(), h, driver.Spec{CPUs: 1, CPUSet: []int{0}})
		if err == nil || !strings.Contains(fault.Fix(err), "as-is: true") {
			t.Errorf("one CPU of OpenBSD: %v", err)
		}
	}
}

// The commands are those of the manuals: the fakes are strict.
func TestFakes(t *testing.T) {
	for _, tt := range []struct {
		kernel, argv string
		ok           bool
	}{
		{"FreeBSD", "cpuset -l 0 sh -c :", true}, {"FreeBSD", "cpuset -l 0-x sh -c :", false},
		{"FreeBSD", "cpuset -z 0 sh", false}, {"FreeBSD", "sysctl kern.racct.enable", false},
		{"NetBSD", "schedctl -A 0,1 sh -c :", true}, {"NetBSD", "schedctl -A 0-1 sh -c :", false},
		{"DragonFly", "usched :0x1 sh -c :", true}, {"DragonFly", "usched :0 sh -c :", false},
		{"SunOS", "psrset -e 2 sh", false}, {"NetBSD", "ps -ef", false}, {"OpenBSD", "uname -r", false},
	} {
		exit, err := bare{kernel: tt.kernel}.host(t.TempDir()).Exec(t.Context(), conn.Command(strings.Fields(tt.argv)...))
		if err != nil || exit.OK() != tt.ok {
			t.Errorf("%s: %s: %v, %v", tt.kernel, tt.argv, exit, err)
		}
	}
}

// The parsers read what systems print, and nothing that is cut off.
func TestProcesses(t *testing.T) {
	marks := []string{Mark("ab-1"), "/env/ab-1/"}
	linux, bsd, illumos := processTree{}, processTree{}, processTree{}
	linux.readProc("/proc/20/environ\n/proc/20/cmdline\n/proc/99/environ\n\n1 (init) S 0 1\n20 (a) b) S 1 2\n" +
		"21 (w) S 20 2\n22 (z) Z 20 2\n30 (other) S 1 3\nnonsense\n")
	bsd.readPS("    1     0 init\n   20     1 BAKEOFF_ENVIRONMENT=ab-1: a\n   21    20 w\n"+
		"   30     1 BAKEOFF_ENVIRONMENT=ab-10: x\n"+
		"   31 1 vi /env/ab-1/x\nx y z\n 7\n", marks)
	illumos.readPS("1 0 init\n20 1 a\n21 20 w\n", marks)
	illumos.readPargs("20:\ta\nenvp[0]: PATH=/bin\nenvp[1]: BAKEOFF_ENVIRONMENT=ab-1:\n\n1:\tinit\n", marks[0])
	for name, tt := range map[string]struct {
		tree processTree
		want string
	}{
		"linux": {linux, "[process 20 a) b process 21 w]"}, "bsd": {bsd,
			"[process 20 BAKEOFF_ENVIRONMENT=ab-1: process 21 w process 31 vi]"},
		"illumos": {illumos, "[process 20 a process 21 w]"},
	} {
		if got := fmt.Sprint(tt.tree.marked()); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	if set, err := parseSet(theSet); err != nil || !slices.Equal(set, []int{0, 1}) {
		t.Errorf("%v, %v", set, err)
	}
	for _, bad := range []string{"", "system processor set 1: processor 0", theSet + theSet} {
		if set, err := parseSet(bad); err == nil {
			t.Errorf("%q: %v", bad, set)
		}
	}
}

func FuzzProcesses(f *testing.F) {
	f.Add("/proc/20/environ\n\n20 (a) S 1 2\n21 (b) S 21 2\n")
	f.Add("1 0 init\n20 1 BAKEOFF_ENVIRONMENT=x: a\n")
	f.Add("20:\ta\nenvp[1]: BAKEOFF_ENVIRONMENT=x:\n")
	f.Add(theSet)
	f.Fuzz(func(t *testing.T, text string) {
		tree := processTree{}
		tree.readProc(text)
		tree.readPS(text, []string{Mark("x")})
		tree.readPargs(text, Mark("x"))
		for _, p := range tree.marked() {
			if p.pid <= 1 {
				t.Errorf("process %d would be killed", p.pid)
			}
		}
		parseSet(text)
	})
}
