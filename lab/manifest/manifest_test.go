package manifest

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/base/yamltree"
	"bakeoff/measure/workload"
)

var update = flag.Bool("update", false, "write the golden files again")

// catalogue is what a lab file of these tests can name.
func catalogue() Catalogue {
	higher := func(name, unit string, primary bool) sample.Metric {
		return sample.Metric{Name: name, Unit: unit, Better: sample.Higher, Primary: primary, Scale: sample.Ratio}
	}
	return Catalogue{
		Drivers: []DriverEntry{
			{Name: "chroot", Summary: "another root directory", Image: true, Backings: []string{"dir", "tmpfs"}},
			{Name: "host", Summary: "the bare host", Backings: []string{"dir", "tmpfs", "file:ext4"}},
			{Name: "oci", Summary: "an OCI container", Image: true, Backings: []string{"dir", "tmpfs", "file:ext4"},
				Options: []param.Spec{
					{Name: "runtime", Kind: param.Text, Default: "crun", Enum: []string{"crun", "runc"}, Doc: "The runtime."},
					{Name: "caps", Kind: param.List, Doc: "Capabilities to keep."}}},
			{Name: "qemu", Summary: "a virtual machine", Image: true, Backings: []string{"file:ext4", "disk"},
				Options: []param.Spec{
					{Name: "machine", Kind: param.Text, Default: "microvm", Enum: []string{"microvm", "q35"}, Doc: "The machine."},
					{Name: "queues", Kind: param.Int, Min: 1, Max: 8, Default: "1", Doc: "Queues of a device."}}},
		},
		Workloads: []WorkloadEntry{
			{Name: "crypto", Summary: "hashing and encryption", Metrics: []sample.Metric{higher("throughput", "B/s", true)},
				Params: []param.Spec{
					{Name: "algorithm", Kind: param.Text, Enum: []string{"sha256", "aes-256-gcm"},
						Required: true, Doc: "The algorithm."},
					{Name: "block", Kind: param.Size, Default: "16KiB", Doc: "Bytes an operation."},
					{Name: "time", Kind: param.Duration, Default: "2s", Doc: "How long a trial works."}}},
			{Name: "files", Summary: "a file system", Volume: "path", Files: workload.FileOf("size"),
				Metrics: []sample.Metric{higher("write", "B/s", true), higher("read", "B/s", false)}, Params: []param.Spec{
					{Name: "path", Kind: param.Text, Default: "/data", Doc: "The volume."},
					{Name: "size", Kind: param.Size, Default: "64MiB", Doc: "Bytes written."}}},
			{Name: "cold", Summary: "a file that memory does not hold", Volume: "path",
				Files: workload.FileOf("size"), FileMemory: 2, Memory: "ram",
				Metrics: []sample.Metric{higher("write", "B/s", true)}, Params: []param.Spec{
					{Name: "path", Kind: param.Text, Default: "/data", Doc: "The volume."},
					{Name: "size", Kind: param.Size, Default: "1GiB", Doc: "Bytes written."},
					{Name: "ram", Kind: param.Size, Doc: "Memory that the file exceeds."}}},
			{Name: "http", Summary: "a web server", Metrics: []sample.Metric{higher("throughput", "request/s", true),
				{Name: "cpu-per-request", Unit: "s/request", Better: sample.Lower, Scale: sample.Ratio},
				{Name: "generator-joules-per-request", Unit: "J/request", Better: sample.Lower, Scale: sample.Ratio,
					GeneratorHost: true}}, Params: []param.Spec{
				{Name: "server", Kind: param.Text, Enum: []string{"nginx"}, Default: "nginx", Doc: "The server."},
				{Name: "connections", Kind: param.Int, Min: 1, Max: 10000, Default: "50", Doc: "Connections."},
				{Name: "tls", Kind: param.Bool, Default: "false", Doc: "Encrypted."},
				{Name: "rate", Kind: param.Rate, Doc: "Requests a second of an open loop."},
				{Name: "time", Kind: param.Duration, Default: "5s", Doc: "How long a trial works."}}},
			{Name: "idle", Summary: "nothing", Metrics: []sample.Metric{higher("nothing", "1", false)}},
		},
	}
}

func example(t *testing.T) []byte {
	t.Helper()
	src, err := os.ReadFile("testdata/static-web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func TestTheExampleIsResolved(t *testing.T) {
	l, err := Parse("bakeoff.yaml", example(t), catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{"cpus": "bakeoff.yaml:17:18", "memory": "bakeoff.yaml:17:29"}
	want := &Lab{
		Schema: Schema, Name: "static-web", Baseline: "host", Path: "bakeoff.yaml", Source: example(t),
		Profiles: []string{"ci", "full"},
		Hosts: map[string]Host{"local": {Meter: []string{"/usr/local/bin/read-meter", "--joules"}},
			"box": {SSH: "root@box.example", Switch: map[string][]string{"freebsd": {"efibootmgr", "-n", "-b", "0002"}}}},
		Contenders: []Contender{
			{Name: "host", Driver: "host", Host: "local", CPUs: 1, Memory: 512 * unit.MiB,
				Options: param.Values{}, Where: defaults},
			{Name: "crun", Driver: "oci", Host: "local", Image: "debian:bookworm", CPUs: 1, Memory: 512 * unit.MiB,
				Options: param.Values{"runtime": "crun"},
				Where:   map[string]string{"image": "bakeoff.yaml:8:53", "cpus": defaults["cpus"], "memory": defaults["memory"]}},
			{Name: "microvm", Driver: "qemu", Host: "local", Image: "debian:bookworm", CPUs: 1, Memory: 512 * unit.MiB,
				Options: param.Values{"machine": "microvm",
					"queues": "1"}, Volumes: []Volume{{Path: "/data", Backing: "file:ext4", Size: 2 * unit.GiB}},
				Where: map[string]string{"image": "bakeoff.yaml:12:12", "cpus": "bakeoff.yaml:13:11",
					"memory": "bakeoff.yaml:14:13", "volumes": "bakeoff.yaml:15:14"}},
		},
		Cells: []Cell{
			{Name: "sha256-16k", Workload: "crypto", Params: param.Values{"algorithm": "sha256", "block": "16KiB", "time": "2s"},
				Primary: []string{"throughput"}},
			{Name: "http-50", Workload: "http", Params: param.Values{"server": "nginx", "connections": "50", "tls": "false",
				"time": "5s"}, Primary: []string{"throughput", "cpu-per-request"}},
			{Name: "http-open", Workload: "http", Params: param.Values{"server": "nginx", "connections": "50", "tls": "false",
				"rate": "5000/s", "time": "5s"}, Primary: []string{}},
		},
		Design: Design{Margin: .02, Looks: []int{8, 12, 18, 26}, Alphas: []float64{.01, .01, .015, .015}, Instances: "block",
			Mirror: true, Budget: 30 * time.Minute, Written: true},
	}
	if !reflect.DeepEqual(l, want) {
		got, _ := json.MarshalIndent(l, "", " ")
		t.Errorf("resolved to %s", got)
	}
}

func TestProfileChangesTheDesignAndTheParameters(t *testing.T) {
	l, err := Parse("bakeoff.yaml", example(t), catalogue(), "ci")
	if err != nil {
		t.Fatal(err)
	}
	if l.Design.Blocks != 2 || l.Design.Budget != time.Minute || l.Design.Margin != .02 || l.Profile != "ci" {
		t.Errorf("design: %+v", l.Design)
	}
	for _, c := range l.Cells {
		if c.Params["time"] != "200ms" {
			t.Errorf("%s takes %s", c.Name, c.Params["time"])
		}
	}
	_, err = Parse("bakeoff.yaml", example(t), catalogue(), "fast")
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "use ci or full") {
		t.Errorf("a profile that is not there: %v", err)
	}
}

// What a profile says of one cell counts before what it says of all, and only
// volumes that have a size get another.
func TestProfileChangesCellsAndVolumes(t *testing.T) {
	src := []byte(`
schema: bakeoff/lab/v1
name: a
defaults: {volumes: {/data: {backing: "file:ext4", size: 1GiB}, /src: {backing: dir}}}
contenders: [{name: host, driver: host}, {name: own, driver: host, volumes: {/data: {backing: tmpfs, size: 64MiB}}}]
baseline: host
cells:
  - {name: one, workload: crypto, params: {algorithm: sha256, time: 3s}}
  - {name: two, workload: crypto, params: {algorithm: sha256, time: 4s}}
profiles:
  full: {params: {time: 10s}, cells: {two: {time: 1m}}, volumes: {/data: 4GiB}}
  ci: {cells: {one: {time: 1s}}}
`)
	for profile, want := range map[string][]string{"": {"3s", "4s", "1GiB", "64MiB"},
		"full": {"10s", "1m0s", "4GiB", "4GiB"}, "ci": {"1s", "4s", "1GiB", "64MiB"}} {
		l, err := Parse("x", src, catalogue(), profile)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{l.Cells[0].Params["time"], l.Cells[1].Params["time"]}
		for _, c := range l.Contenders {
			for _, v := range c.Volumes {
				if v.Path == "/data" {
					got = append(got, v.Size.String())
				} else if v.Size != 0 {
					t.Errorf("%s: %s has got a size of %s", profile, v.Path, v.Size)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("profile %q: %v; want %v", profile, got, want)
		}
	}
}

func minimal(more string) []byte {
	return []byte("schema: bakeoff/lab/v1\nname: a\ncontenders: [{name: host, driver: host}]\nbaseline: host\ncells: " +
		"[{name: c, workload: crypto, params: {algorithm: sha256}}]\n" + more)
}

func TestDefaultsAndAliases(t *testing.T) {
	l, err := Parse("x", []byte(`
schema: bakeoff/lab/v1
name: files
defaults: {cpus: 2, memory: 1GiB, image: debian:bookworm, volumes: {/data: &disk {backing: dir}}}
contenders:
  - {name: host, driver: host}
  - {name: runc, driver: oci, runtime: runc, caps: [net_admin, sys_nice], cpus: 1,
     volumes: {/data: *disk, /tmp/x: {backing: tmpfs, size: 64MiB}}, tuning: {net.core.somaxconn: 4096}}
baseline: host
cells: [{name: write, workload: files, params: {path: /data/x}, primary: true}]
design: {looks: [10, 20]}
`), catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	host, runc := l.Contenders[0], l.Contenders[1]
	if host.CPUs != 2 || host.Memory != unit.GiB || host.Image != "" || len(host.Volumes) != 1 {
		t.Errorf("host: %+v", host)
	}
	want := []Volume{{Path: "/data", Backing: "dir"}, {Path: "/tmp/x", Backing: "tmpfs", Size: 64 * unit.MiB}}
	if runc.CPUs != 1 || runc.Image != "debian:bookworm" || !reflect.DeepEqual(runc.Volumes, want) ||
		!reflect.DeepEqual(runc.Options.List("caps"), []string{"net_admin", "sys_nice"}) ||
		runc.Tuning["net.core.somaxconn"] != "4096" {
		t.Errorf("runc: %+v", runc)
	}
	if !reflect.DeepEqual(l.Design.Alphas, []float64{.025, .025}) {
		t.Errorf("alphas of two looks: %v", l.Design.Alphas)
	}
}

// Every file in testdata/wrong has its messages beside it, all of them at
// once, each with its place and its remedy.
func TestWrongFilesSayWhatIsWrong(t *testing.T) {
	files, err := filepath.Glob("testdata/wrong/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(filepath.Base(file), src, catalogue(), "")
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("accepted, or of another class: %v", err)
			}
			errs, ok := errors.AsType[yamltree.Errors](err)
			if !ok {
				t.Fatalf("no Errors in %T", err)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(errs.Error()+"\n"), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got := errs.Error() + "\n"; got != string(want) {
				t.Errorf("messages are\n%swant\n%s", got, want)
			}
			for _, e := range errs {
				if e.Fix == "" {
					t.Errorf("%v: does not say what would be right", e)
				}
			}
		})
	}
}

// Files that would cost a reader more than they are worth are refused in
// little time.
func TestBombsAreRefused(t *testing.T) {
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9))
	}
	for name, src := range map[string]string{
		"billion laughs": laughs.String(),
		"deep lists":     strings.Repeat("[", 200_000),
		"deep mappings":  strings.Repeat("{a: ", 100_000),
		"deep entries":   strings.Repeat("- ", 200_000),
		"deep questions": strings.Repeat("? ", 200_000),
		"many tags":      strings.Repeat("!a ", 200_000),
		"large":          strings.Repeat("# a comment\n", 100_000),
		"many values":    strings.Repeat("- a\n", 200_000),
	} {
		start := time.Now()
		_, err := Parse("bomb.yaml", []byte(src), catalogue(), "")
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
		if d := time.Since(start); d > time.Minute {
			t.Errorf("%s: refused after %v", name, d)
		}
	}
}

// Shares may be written in percent.
func TestSharesInPercent(t *testing.T) {
	src := strings.Replace(string(example(t)), "margin: 0.02, looks: [8, 12, 18, 26], alphas: [.010,",
		"margin: 5%, looks: [8, 12, 18, 26], alphas: [1%,", 1)
	l, err := Parse("x", []byte(src), catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	if l.Design.Margin != 0.05 || l.Design.Alphas[0] != 0.01 {
		t.Errorf("margin %v, alphas %v", l.Design.Margin, l.Design.Alphas)
	}
	for bad, want := range map[string]string{"51%": "0.51 is not between 0.0001 and 0.5", "x%": `"x%" is not a number`} {
		_, err := Parse("x", []byte(strings.Replace(src, "margin: 5%", "margin: "+bad, 1)), catalogue(), "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("margin %s: %v", bad, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	src, err := os.ReadFile("testdata/static-web.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(src)
	files, err := filepath.Glob("testdata/wrong/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add(minimal("design: {looks: [1], alphas: [.05], blocks: 1}\nprofiles: {x: {params: {time: 1s}}}\n"))
	f.Add([]byte(variants))
	f.Add([]byte(sweepLab))
	cat := withCommand()
	f.Fuzz(func(t *testing.T, src []byte) {
		l, err := Parse("fuzz.yaml", src, cat, "")
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("another class: %v", err)
			}
			return
		}
		if l.Name == "" || l.Baseline == "" || len(l.Contenders) == 0 || len(l.Cells) == 0 ||
			len(l.Design.Looks) != len(l.Design.Alphas) {
			t.Fatalf("accepted, but not resolved: %+v", l)
		}
		for _, c := range l.Contenders {
			if c.CPUs < 1 || c.Memory < unit.MiB || c.Driver == "" {
				t.Fatalf("contender %+v", c)
			}
		}
	})
}

// Rates of I/O are a contender's own, or the defaults'.
func TestIO(t *testing.T) {
	text := "schema: bakeoff/lab/v1\nname: io\nbaseline: a\ndefaults: {io: {write: 2MiB/s}}\ncontenders:\n" +
		"  - {name: a, driver: host, io: {read: 50MB/s}}\n  - {name: b, driver: host}\ncells:\n  - {name: c, workload: " +
		"idle, primary: [nothing]}\n"
	l, err := Parse("bakeoff.yaml", []byte(text), catalogue(), "")
	if l == nil {
		t.Fatal(err)
	}
	if got := l.Contenders[0].IO; got != (IO{Read: 50e6}) {
		t.Errorf("its own: %+v", got)
	}
	if got := l.Contenders[1].IO; got != (IO{Write: 2 * unit.MiB}) {
		t.Errorf("the defaults': %+v", got)
	}
}

// An item of a list may have several lines, as a script has.
func TestListsOfLines(t *testing.T) {
	cat := catalogue()
	cat.Workloads[0].Params = append(cat.Workloads[0].Params, param.Spec{Name: "argv", Kind: param.List})
	src := "schema: bakeoff/lab/v1\nname: a\ncontenders: [{name: host, driver: host}]\nbaseline: host\ncells:\n" +
		"  - name: one\n    workload: crypto\n    params:\n      algorithm: sha256\n      argv:\n" +
		"        - sh\n        - -c\n" +
		"        - |\n          cd /tmp\n          ls\n"
	l, err := Parse("a.yaml", []byte(src), cat, "")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"sh", "-c", "cd /tmp\nls\n"}
	if got := l.Cells[0].Params.List("argv"); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The first look can decide every comparison, the looks follow from the budget, and the
// error rates add up to that of a run.
func TestLooks(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Second, time.Minute, time.Hour} {
		for n := 1; n < 64*5; n++ {
			looks, rates := Looks(n, 300*time.Millisecond, limit)
			sum, p := 0.0, math.Exp2(float64(1-looks[0]))
			for _, a := range rates {
				sum += a
			}
			last := looks[len(looks)-1]
			if p > rates[0]/float64(n) || !slices.IsSorted(looks) || len(slices.Compact(slices.Clone(looks))) != len(rates) ||
				len(looks) > maxLooks || sum > .047+1e-9 || sum < .046 || last < 960 && last < int(2*limit/(300*time.Millisecond)) {
				t.Errorf("%d comparisons: looks %v, alphas %v", n, looks, rates)
			}
		}
	}
	for limit, want := range map[time.Duration][]int{
		10 * time.Second: {8, 11, 16, 22, 31, 43, 60, 85},
		time.Minute:      {8, 11, 16, 22, 31, 43, 60, 85, 120, 170, 240, 339, 480},
		time.Hour:        {8, 11, 16, 22, 31, 43, 60, 85, 120, 170, 240, 339, 480, 679, 960},
	} {
		if got, _ := Looks(1, 300*time.Millisecond, limit); !slices.Equal(got, want) {
			t.Errorf("%v: looks %v", limit, got)
		}
	}
}
