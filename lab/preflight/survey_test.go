package preflight

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/measure/tool/fio"
	"bakeoff/measure/tool/openssl"
	"bakeoff/measure/workload"
	boot "bakeoff/measure/workload/boot/runner"
	command "bakeoff/measure/workload/command/runner"
	compression "bakeoff/measure/workload/compression/runner"
	external "bakeoff/measure/workload/external/runner"
	http "bakeoff/measure/workload/http/runner"
	"bakeoff/provision/binary"
	"bakeoff/provision/driver"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// strict is a driver that holds no quota, takes settings of its own and at
// least a MiB of memory, and can have volumes.
type strict struct{ *shelf }

func (s strict) Doc() driver.Doc {
	d := s.shelf.Doc()
	d.Backings = []string{"dir", "disk", "file:btrfs", "file:ext4"}
	d.Enforces = map[string]string{"io": "somehow"}
	d.Tuning = driver.Tuning{Names: []string{"own.*"}, Why: "the rest is shared",
		Lacks: func(_ context.Context, _ conn.Conn, names []string) (map[string]string, error) {
			if slices.Contains(names, "own.new") {
				return map[string]string{"own.new": "this kernel is too old"}, nil
			}
			return nil, nil
		}}
	return d
}

func (strict) Validate(spec driver.Spec) error {
	if spec.CPUs != 1 || len(spec.CPUSet) != 1 || !filepath.IsAbs(spec.Dir) {
		return fault.WithFix(fault.New(fault.Unsupported, "%d processors: it gives one", spec.CPUs), "write cpus: 1")
	}
	return nil
}

// mute is a driver whose environments have no agent.
type mute struct{ *shelf }

func (m mute) Doc() driver.Doc {
	d := m.shelf.Doc()
	d.Agentless = []string{"*"}
	return d
}

// paired is a workload that needs the other end.
type paired struct{ *dice }

func (w paired) Doc() workload.Doc {
	d := w.dice.Doc()
	d.Name, d.Peer = "paired", true
	return d
}

// look plans a lab of these contenders and cells, and looks at this machine.
func look(t *testing.T, contenders, cells string) Survey {
	t.Helper()
	drivers := []driver.Driver{&shelf{name: "shelf"}, strict{&shelf{name: "strict"}}, &shelf{name: "absent"},
		kernels{strict{&shelf{name: "kernels"}}}, mute{&shelf{name: "mute"}}}
	workloads := []execution.Runner{&dice{}, paired{&dice{}}, command.New(), compression.New(), external.New(fio.New()),
		external.New(openssl.New()), boot.New()}
	cat := CatalogueOf(drivers, workloads)
	src := "schema: bakeoff/lab/v1\nname: look\ncontenders:\n" + contenders + "baseline: base\ncells:\n" + cells
	lab, err := manifest.Parse("lab.yaml", []byte(src), cat, "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Expand(lab, cat, 1, "test")
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "not", "there", "yet")
	s, err := Inspect(t.Context(), p, Site{Drivers: drivers, Workloads: workloads,
		Way: func(string) (conn.Conn, error) { return local.Conn{}, nil },
		Size: func(string) (int, unit.Bytes, error) {
			return 4, 8 * unit.GiB,
				nil
		}, State: func(string) string { return state }, Cache: state})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(state)); err == nil {
		t.Error("looking has made a folder")
	}
	return s
}

const base, diceCell = "  - {name: base, driver: shelf}\n", "  - {name: one, workload: dice, primary: true}\n"

// Whatever can be known of a contender is said before anything is made, once,
// with its place and what would be right.
func TestLookAtContenders(t *testing.T) {
	for _, tt := range []struct{ what, contender, want string }{
		{"nothing wrong", "{name: x, driver: strict, tuning: {own.old: \"1\"}}", ""},
		{"what the driver itself cannot", "{name: x, driver: strict, cpus: 2}", "2 processors: it gives one; write cpus: 1"},
		{"too many CPUs", "{name: x, driver: shelf, cpus: 5}", "it asks for 5 CPUs (lab.yaml:5:36), but its host has " +
			"4; write cpus: 4 or less"},
		{"a setting that this host has not", "{name: x, driver: strict, tuning: {own.new: \"1\"}}",
			"tuning own.new: this kernel is too old; remove it, or use a driver that boots its own kernel"},
		{"a property that no such file system has", "{name: x, driver: strict, volumes: {/d: {backing: \"file:btrfs\", " +
			"size: 200MiB, properties: {recordsize: 8k}}}}",
			"volume /d: file:btrfs has no property \"recordsize\"; use one of compression, force"},
		{"a disk that is not ours", "{name: x, driver: strict, volumes: {/d: {backing: disk, device: /dev/no-such-disk}}}",
			"volume /d (lab.yaml:5:40): /dev/no-such-disk: there is no such block device; name one that lsblk shows"},
	} {
		s := look(t, base+"  - "+tt.contender+"\n", diceCell)
		a := s.Answers[slices.IndexFunc(s.Answers, func(a Availability) bool { return a.Contender == "x" })].Answer
		if a.OK != (tt.want == "") || !a.OK && a.String() != tt.want {
			t.Errorf("%s: %v, %q, want %q", tt.what, a.OK, a.String(), tt.want)
		}
		if able, all := s.Count(); all != 2 || able != map[bool]int{true: 2, false: 1}[a.OK] || s.Short() == a.OK {
			t.Errorf("%s: %d of %d can run, cells missing: %v", tt.what, able, all, s.Short())
		}
	}
	s := look(t, base+"  - {name: x, driver: strict, volumes: {/d: {backing: \"file:ext4\", size: 9000TiB}}}\n", diceCell)
	why := gone(s.Answers)("x")
	if !strings.HasPrefix(why, "unavailable: its volumes (lab.yaml:5:40) need 9000TiB in /") ||
		!strings.Contains(why, "are free there; write a smaller size:") {
		t.Errorf("a volume that no disk holds: %q", why)
	}
}

// onData ends a contender with a volume.
const onData = ", volumes: {/data: {backing: \"file:btrfs\", size: 100MiB}}}"

// A run in which nothing could be compared is refused, with the class that its
// exit code follows from.
func TestLookRefuses(t *testing.T) {
	for _, tt := range []struct {
		what, contenders, cells string
		kind                    fault.Kind
		want                    string
	}{
		{"nothing wrong", base + "  - {name: x, driver: strict}\n", diceCell, 0, ""},
		{"no baseline", "  - {name: base, driver: absent}\n  - {name: x, driver: strict}\n", diceCell, fault.Unsupported,
			"the baseline base cannot run here: unavailable: absent is not installed; apt-get install absent"},
		{"nobody beside it", base + "  - {name: x, driver: absent}\n", diceCell, fault.Unsupported,
			"no contender but the baseline can run here: x: unavailable: absent is not installed; apt-get install absent"},
		{"two with one reason", base + "  - {name: x, driver: absent}\n  - {name: y, driver: absent}\n", diceCell,
			fault.Unsupported, "no contender but the baseline can run here: x, y: unavailable: absent is not installed; " +
				"apt-get install absent"},
		{"a device that the twin mounts too", "  - {name: base, driver: kernels, volumes: {/d: {backing: disk, " +
			"device: /dev/a}}}\n  - {name: x, driver: shelf}\n", diceCell, fault.Unsupported,
			"the baseline base cannot run here: unavailable: volume /d (lab.yaml:4:44): its twin mounts /dev/a at the " +
				"same time with another kernel; this would damage the file system on it; use backing: file:ext4, or a " +
				"device that " +
				"no other contender has; the baseline cannot have one, because its twin would share it"},
		{"a workload for the agent that an environment does not have", base + "  - {name: x, driver: mute}\n", diceCell,
			fault.Unsupported, "no contender but the baseline can run here: x: unavailable: it has no agent, and the workload " +
				"dice of cell one starts programs in its environments; remove the cell, or start the agent in the guest"},
		{"a workload from outside", base + "  - {name: x, driver: mute}\n",
			"  - {name: one, workload: boot, primary: true}\n", 0, ""},
		{"one of three", base + "  - {name: x, driver: absent}\n  - {name: y, driver: shelf}\n", diceCell, 0, ""},
		{"a cell that contradicts itself", base + "  - {name: x, driver: shelf}\n",
			"  - {name: one, workload: command, params: {argv: [\"true\"], exit: \"300\"}}\n", fault.Invalid,
			`cell one: command: exit must be a number from 0 to 255, or any (got "300")`},
		{"a depth that the engine does not have", strings.ReplaceAll("  - {name: base, driver: strict}\n  - "+
			"{name: x, driver: strict}\n", "}", onData),
			"  - {name: one, workload: fio, params: {iodepth: 32}}\n", fault.Invalid,
			"cell one: fio: iodepth: 32 requires an asynchronous engine, and psync is synchronous; set engine to " +
				"libaio (Linux) or posixaio"},
		{"an option in place of an algorithm", base + "  - {name: x, driver: shelf}\n",
			"  - {name: one, workload: openssl, params: {algorithm: -help}}\n", fault.Invalid,
			`cell one: openssl: algorithm: invalid name "-help"; write for example sha256 or aes-256-gcm`},
		{"a script that nobody has", base + "  - {name: x, driver: shelf}\n",
			"  - {name: one, workload: command, params: {argv: [sh, /no/such/script]}}\n", fault.Invalid,
			"cell one: argv: there is no file /no/such/script in the contenders base, x; write argv: with a path " +
				"that every contender has"},
		{"a program that nobody has", base + "  - {name: x, driver: shelf}\n",
			"  - {name: one, workload: command, params: {argv: [/no/such/program]}}\n", fault.Invalid,
			"cell one: argv: there is no file /no/such/program in the contenders base, x; write argv: with a path " +
				"that every contender has"},
	} {
		err := look(t, tt.contenders, tt.cells).Refusal()
		if got := errText(err); got != tt.want || err != nil && !fault.Is(err, tt.kind) {
			t.Errorf("%s: %v of kind %v, want %q", tt.what, err, fault.Of(err), tt.want)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// All environments of a block are there at the same time, and so are their
// volumes: each may fit while all of them do not.
func TestLookAtWhatIsThereTogether(t *testing.T) {
	two := func(volume string) string {
		return "  - {name: base, driver: strict" + volume + "}\n  - {name: x, driver: strict" + volume +
			", memory: 4GiB, quota: 0.5}\n"
	}
	s := look(t, two(""), diceCell)
	if len(s.Unmet) != 0 {
		t.Errorf("without volumes: %v", s.Unmet)
	}
	if len(s.Notes) != 1 || !strings.HasPrefix(s.Notes[0], "x asks for a limit of quota (lab.yaml:5:52), which the "+
		"driver strict cannot enforce") {
		t.Errorf("notes: %q", s.Notes)
	}
	free, err := volume.Free(t.Context(), local.Conn{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s = look(t, two(fmt.Sprintf(", volumes: {/d: {backing: \"file:ext4\", size: %dMiB}}", free/unit.MiB*6/10)), diceCell)
	if able, _ := s.Count(); able != 2 || len(s.Unmet) != 1 || !strings.HasPrefix(s.Unmet[0], "the "+
		"volumes of a block (those of the twin, too) take ") ||
		!fault.Is(s.Refusal(), fault.Unsupported) {
		t.Errorf("%d can run, %q, %v", able, s.Unmet, s.Refusal())
	}
	s = look(t, "  - {name: base, driver: shelf, memory: 4GiB}\n  - {name: x, driver: shelf, memory: 4GiB}\n", diceCell)
	if len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "may use 12GiB of memory together, and local has 8GiB") {
		t.Errorf("notes: %q", s.Notes)
	}
}

// A cell that measures memory instead of storage is noted with what to change.
func TestLookAtCaveats(t *testing.T) {
	cells := func(params string) string {
		return "  - {name: disk, workload: fio, params: {size: 64MiB" + params + "}}\n"
	}
	two := func(backing string) string {
		volume := ", volumes: {/data: {backing: " + backing + ", size: 100MiB}}"
		return "  - {name: base, driver: strict" + volume + "}\n  - {name: x, driver: strict, memory: 32MiB" + volume + "}\n"
	}
	for _, tt := range []struct{ backing, params, want string }{
		{"file:btrfs", "", ""},
		{"file:btrfs", ", direct: false", "cell disk in base: direct=false, fits in memory: a file of 64MiB in 512MiB of " +
			"memory, not storage; set direct to auto and use a volume whose file system supports O_DIRECT, or set " +
			"size to more " +
			"than the memory"},
	} {
		s := look(t, two(`"`+tt.backing+`"`), cells(tt.params))
		if got := strings.Join(s.Notes, "\n"); got != tt.want {
			t.Errorf("%s%s: notes %q, want %q", tt.backing, tt.params, got, tt.want)
		}
	}
}

// modules is a host whose kernel has OpenZFS, or has not.
type modules struct {
	local.Conn
	zfs bool
}

func (m modules) ReadFile(ctx context.Context, path string) ([]byte, error) {
	switch {
	case path != "/sys/module/zfs/version":
		return m.Conn.ReadFile(ctx, path)
	case m.zfs:
		return []byte("2.2.3\n"), nil
	}
	return nil, fault.New(fault.NotFound, "%s", path)
}

// Whether file:zfs is OpenZFS is known before a run, and so are the properties of the
// volume. A property that is set is no remedy.
func TestLookAtCaveatsOfZFS(t *testing.T) {
	for _, tt := range []struct {
		zfs                      bool
		workload, property, want string
	}{
		{false, "fio", "",
			"direct=true, but the host caches the volume: this may be the host's memory; zfs-fuse, not OpenZFS"},
		{false, "compression", "metadata", "zfs-fuse, not OpenZFS"},
		{true, "compression", "metadata", ""},
		{true, "fio", "", "direct=false, fits in memory: a file of 64MiB in 512MiB of memory, not " +
			"storage; use a volume whose " +
			"file system supports O_DIRECT, or set size to more than the memory of the host"},
		{true, "fio", "metadata", "direct=false, and the host caches the file of the pool: this may be " +
			"the host's memory; use a " +
			"volume whose file system supports O_DIRECT, or set size to more than the memory of the host"},
	} {
		p := &plan.Plan{Contenders: []plan.Contender{{Contender: manifest.Contender{Name: "base", Memory: 512 * unit.MiB,
			Volumes: []manifest.Volume{{Path: "/data", Backing: "file:zfs",
				Properties: map[string]string{"primarycache": tt.property}}}}}}}
		params := param.Values{"volume": "/data"}
		v := inspector{plan: p, known: map[string]string{}, Site: Site{
			Workloads: []execution.Runner{external.New(fio.New()), compression.New()},
			Way:       func(string) (conn.Conn, error) { return modules{zfs: tt.zfs}, nil }}}
		for _, s := range v.Workloads[0].Doc().Params {
			if params[s.Name] == "" && tt.workload == "fio" {
				params[s.Name] = s.Default
			}
		}
		p.Cells = []plan.Cell{{Cell: manifest.Cell{Name: "disk", Workload: tt.workload, Params: params}}}
		want := ""
		if tt.want != "" {
			want = "cell disk in base: " + tt.want
		}
		if got := strings.Join(v.cellCaveats(t.Context(), func(string) bool { return true }), "\n"); got != want {
			t.Errorf("%s, OpenZFS %v, primarycache %q:\n%q, want\n%q", tt.workload, tt.zfs, tt.property, got, want)
		}
	}
}

// A cell with too few values for its primary percentile is noted with what to change.
func TestLookAtFewValues(t *testing.T) {
	p := &plan.Plan{Contenders: []plan.Contender{{Contender: manifest.Contender{Name: "base"}},
		{Contender: manifest.Contender{Name: "x"}}}}
	v := inspector{Site: Site{Workloads: []execution.Runner{&dice{}, http.New()}}, plan: p}
	for _, tt := range []struct{ workload, time, primary, want string }{
		{"http", "200ms", "latency-p99", "cell one: a trial sends about 10 requests (rate 50/s, time 200ms), and " +
			"latency-p99 needs at least 1000, of which 10 are slower; set time to 20s or more, or rate to 5000/s or more"},
		{"http", "20s", "latency-p99", ""},
		{"http", "200ms", "throughput", ""},
		{"dice", "200ms", "latency-p99", ""},
	} {
		p.Cells = []plan.Cell{{Cell: manifest.Cell{Name: "one", Workload: tt.workload, Primary: []string{tt.primary},
			Params: param.Values{"rate": "50/s", "time": tt.time}}}}
		if got := strings.Join(v.fewValues(), "\n"); got != tt.want {
			t.Errorf("%s for %s, %s: %q, want %q", tt.workload, tt.time, tt.primary, got, tt.want)
		}
	}
	// A contender with a rate of its own is noted alone.
	p.Cells = []plan.Cell{{Cell: manifest.Cell{Name: "one", Workload: "http", Primary: []string{"latency-p99"},
		Params: param.Values{"rate": "1000/s", "time": "1s"}}}}
	p.Contenders[1].Params = map[string]param.Values{"one": {"rate": "500/s"}}
	want := "cell one in x: a trial sends about 500 requests (rate 500/s, time 1s), and latency-p99 needs at " +
		"least 1000, " +
		"of which 10 are slower; set time to 2s or more, or rate to 1000/s or more"
	if got := strings.Join(v.fewValues(), "\n"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// kernels is a driver whose environments are guests.
type kernels struct{ strict }

func (k kernels) Doc() driver.Doc {
	d := k.strict.Doc()
	d.Kernel = true
	return d
}

// The twin mounts the block device of the baseline too. Two kernels would damage its
// file system; under one kernel both work on the same files.
func TestLookAtSharedDevices(t *testing.T) {
	disk := func(device string) []manifest.Volume {
		return []manifest.Volume{{Path: "/d", Backing: "disk", Device: device}}
	}
	x := func(name, driver, device, twinOf string) plan.Contender {
		c := plan.Contender{Contender: manifest.Contender{Name: name, Driver: driver,
			Where: map[string]string{"volumes": "lab.yaml:4:40"}}, TwinOf: twinOf}
		if device != "" {
			c.Volumes = disk(device)
		}
		return c
	}
	away := x("c", "strict", "/dev/a", "")
	away.Host = "box"
	for _, tt := range []struct {
		what       string
		contenders []plan.Contender
		note, why  string // of the first
	}{
		{"a baseline", []plan.Contender{x("base", "strict", "/dev/a", ""), x("base-twin", "strict", "/dev/a", "base")},
			"volume /d of base (lab.yaml:4:40): its twin mounts the same device /dev/a", ""},
		{"a baseline in a guest", []plan.Contender{x("base", "kernels", "/dev/a", ""),
			x("base-twin", "kernels", "/dev/a", "base")}, "", "its twin mounts /dev/a at the same time with another kernel"},
		{"two contenders", []plan.Contender{x("b", "strict", "/dev/a", ""), x("c", "kernels", "/dev/a", "")}, "",
			"c mounts /dev/a at the same time with another kernel"},
		{"two contenders under one kernel", []plan.Contender{x("b", "strict", "/dev/a", ""), x("c", "strict", "/dev/a", "")},
			"volume /d of b (lab.yaml:4:40): c mounts the same device /dev/a", ""},
		{"two devices", []plan.Contender{x("b", "kernels", "/dev/a", ""), x("c", "kernels", "/dev/b", "")}, "", ""},
		{"two hosts", []plan.Contender{x("b", "strict", "/dev/a", ""), away}, "", ""},
		{"no volume", []plan.Contender{x("b", "strict", "", ""), x("b-twin", "strict", "", "b")}, "", ""},
	} {
		v := inspector{Site: Site{Drivers: []driver.Driver{strict{&shelf{name: "strict"}},
			kernels{strict{&shelf{name: "kernels"}}}}}, plan: &plan.Plan{Contenders: tt.contenders}}
		first := tt.contenders[0]
		notes := v.sharedDevices(func(name string) bool { return name == first.Name })
		if got := strings.Join(notes, "\n"); !strings.HasPrefix(got, tt.note) || (got == "") != (tt.note == "") {
			t.Errorf("%s: notes %q, want %q", tt.what, got, tt.note)
		}
		why := ""
		for _, vol := range env.Volumes(first.Volumes) {
			why += errText(v.checkSharing(first, vol))
		}
		if !strings.HasPrefix(why, tt.why) || (why == "") != (tt.why == "") {
			t.Errorf("%s: refused by %q, want %q", tt.what, why, tt.why)
		}
	}
}

// Interfaces over which load comes are looked at, once it does.
func TestLookAtUplinks(t *testing.T) {
	hosts := "hosts: {local: {uplink: lo}, box: {ssh: root@box, uplink: no-such-link}}\ngenerator: box\n"
	both := base + "  - {name: x, driver: shelf}\n"
	if s := look(t, both, diceCell+hosts); len(s.Unmet) != 0 {
		t.Errorf("no cell needs the other end: %q", s.Unmet)
	}
	s := look(t, both, "  - {name: one, workload: paired, primary: true}\n"+hosts)
	if len(s.Unmet) != 2 || !strings.HasPrefix(s.Unmet[0], "host box: uplink no-such-link: ") ||
		!strings.HasPrefix(s.Unmet[1], "host local: uplink lo may be in use, because it has the address 127.") {
		t.Errorf("%q", s.Unmet)
	}
	if err := s.Refusal(); !fault.Is(err, fault.Unsupported) {
		t.Errorf("%v", err)
	}
}

// Files are looked for where they will be read: on the host for who has its
// root, and nowhere for what is first made.
func TestLookForFiles(t *testing.T) {
	mail := t.TempDir()
	volume := ", volumes: {/d: {backing: dir}}"
	contenders := "  - {name: base, driver: strict" + volume + "}\n  - {name: x, driver: strict" + volume + "}\n"
	for _, tt := range []struct{ cell, want string }{
		{"workload: compression, params: {volume: /d, folder: " + mail + "}", ""},
		{"workload: compression, params: {volume: /d, folder: " + mail + "/none}", "folder: there is no folder " +
			mail + "/none in the contenders base, x"},
		{"workload: compression, params: {volume: /d, folder: /etc/passwd}",
			"folder: there is no folder /etc/passwd in the contenders base, x"},
		{"workload: command, params: {argv: [sh]}", ""},
		{"workload: command, params: {argv: [no-such-program]}",
			"argv: there is no program no-such-program in the contenders base, x"},
		{"workload: command, params: {argv: [/d/made-by-another-cell]}", ""},
		{"workload: command, params: {prepare: [sh], argv: [/made/by/prepare]}", ""},
		{"workload: command, params: {prepare: [/none], argv: [sh]}",
			"prepare: there is no file /none in the contenders base, x"},
		{"workload: command, params: {argv: [no-such-program], env: [\"PATH=/opt/bin\"]}", ""},
	} {
		s := look(t, contenders, "  - {name: one, "+tt.cell+"}\n")
		got := ""
		if len(s.Absent) > 0 {
			got = s.Absent[0].String()
		}
		if got != tt.want || len(s.Absent) > 0 && !s.Absent[0].Everywhere {
			t.Errorf("%s: %q, want %q", tt.cell, got, tt.want)
		}
	}
}

// An image that was built is looked into; what a link of it leads to outside is
// not the image's.
func TestFilesOfAnImage(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"usr/bin", "srv/mail"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "usr/bin/tool"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"bin": "usr/bin", "out": "/etc", "usr/bin/other": "tool"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		file execution.File
		want binary.Presence
	}{
		{execution.File{Path: "/srv/mail", Folder: true}, there},
		{execution.File{Path: "/", Folder: true}, there},
		{execution.File{Path: "/bin/tool"}, there},
		{execution.File{Path: "/bin/tool", Folder: true}, missing},
		{execution.File{Path: "/srv/www", Folder: true}, missing},
		{execution.File{Path: "/out/passwd"}, unknown},
		{execution.File{Path: "/bin/other"}, unknown},
		{execution.File{Path: "tool"}, there},
		{execution.File{Path: "none"}, missing},
	} {
		if got := presenceInRoot(root, tt.file); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.file, got, tt.want)
		}
	}
	if got := presenceInRoot("", execution.File{Path: "/srv/mail"}); got != unknown {
		t.Errorf("an image that was not built: %v", got)
	}
}

// The configuration of an image says where its programs are.
func TestProgramsInThePATHOfAnImage(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(filepath.Join(root, "usr/local/go/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "usr/local/go/bin/go"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	file := execution.File{Path: "go"}
	if got := presenceInRoot(root, file); got != missing {
		t.Errorf("without a configuration: %v", got)
	}
	const config = `{"config": {"env": ["LANG=C", "PATH=/usr/local/go/bin:/usr/bin"]}}`
	if err := os.WriteFile(filepath.Join(dir, "image.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := presenceInRoot(root, file); got != there {
		t.Errorf("in the PATH of the image: %v", got)
	}
}

// The remedy for a file that an image lacks says what images contain.
func TestRemedyForAnImage(t *testing.T) {
	for _, tt := range []struct {
		image string
		lacks []string
		want  bool
	}{
		{"debian:bookworm", []string{"base", "x"}, true}, {"debian:bookworm", []string{"base"}, false},
		{"/srv/root", []string{"x"}, false}, {"", []string{"x"}, false}, {"alpine:3.20", []string{"x"}, false},
		{"rootfs:root.tar", []string{"x"}, false}, {"docker-archive:a.tar", []string{"x"}, false},
		{"disk:a.qcow2", []string{"x"}, false},
	} {
		p := &plan.Plan{Contenders: []plan.Contender{{Contender: manifest.Contender{Name: "base"}},
			{Contender: manifest.Contender{Name: "x", Image: tt.image}}}}
		got := Absence{Contenders: tt.lacks}
		inspector{plan: p}.addImageRemedy(&got)
		if strings.Contains(got.Fix, "base system") != tt.want || got.Built != tt.want {
			t.Errorf("%q, absent in %v: %q", tt.image, tt.lacks, got.Fix)
		}
		if given := strings.Contains(tt.image, ":") && !strings.HasPrefix(tt.image, "disk:") && !tt.want &&
			slices.Contains(tt.lacks, "x"); given !=
			strings.Contains(got.Fix, "place it with files: bakeoff installs no packages in "+tt.image) {
			t.Errorf("%q, absent in %v: %q", tt.image, tt.lacks, got.Fix)
		}
	}
}
