package diagnosis

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"bakeoff/base/facts"
	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/hosts"
	"bakeoff/lab/preflight"
	"bakeoff/measure/workload"
	workloadall "bakeoff/measure/workload/all"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/provision/vm/network"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
	"bakeoff/reach/system"
)

// The states of a Finding.
const (
	Good    = "good"
	Warning = "warning" // measurements will be worse
	Missing = "missing" // something cannot be done
	Fact    = "fact"
)

// Finding is one thing that doctor looked at.
type Finding struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}

// Line is a finding in a sentence.
func (f Finding) Line() string {
	s := f.Name + ": " + f.Text
	if f.Fix != "" {
		s += "; " + f.Fix
	}
	return s
}

// Lack is the finding of a program that a host lacks.
func Lack(l preflight.Lack) Finding {
	f := Finding{Name: l.Program, State: Missing, Fix: l.Fix,
		Text: strings.Join(l.Contenders, ", ") + " needs it at " + strings.Join(l.Cells, ", ")}
	if l.Host != env.LocalHost {
		f.Text += ", on " + l.Host
	}
	return f
}

// Absence is the finding of a file that contenders do not have.
func Absence(x preflight.Absence) Finding {
	return Finding{Name: "cell " + x.Cell, State: Missing, Text: x.String() + "; " + x.Fix}
}

// installCommand is the command that installs packages, "" for none.
func installCommand(packages []string, uid int) string {
	if len(packages) == 0 {
		return ""
	}
	slices.Sort(packages)
	command := "apt-get install --no-install-recommends " + strings.Join(slices.Compact(packages), " ")
	if uid != 0 {
		command = "sudo " + command
	}
	return command
}

func commonFindings() []Finding {
	out := []Finding{{Name: "system", State: Fact, Text: runtime.GOOS + "/" + runtime.GOARCH}}
	if os.Getuid() == 0 {
		out = append(out, Finding{Name: "root", State: Good, Text: "yes"})
	} else {
		needs := []string{}
		for _, d := range driverall.Drivers() {
			if doc := d.Doc(); doc.Root {
				needs = append(needs, doc.Name)
			}
		}
		text := "no: " + strings.Join(needs, ", ") + " need it; the others do not"
		if len(needs) == len(driverall.Drivers()) {
			text = "no: every driver needs it; plan, verify, report, export and analyse do not"
		}
		out = append(out, Finding{Name: "root", State: Warning, Text: text, Fix: "run bakeoff with sudo to measure"})
	}
	return append(out, cpuFinding(runtime.NumCPU()), cpuTimeFinding(probe.ReadHost(nil).CPUSource, runtime.GOOS))
}

// cpuTimeFinding says what measures the CPU time of a trial on a machine.
func cpuTimeFinding(source, system string) Finding {
	f := Finding{Name: "cpu time", State: Good, Text: "by " + source + ", in nanoseconds"}
	switch source {
	case "":
		f.State, f.Text = Fact, "unavailable: CPU time cannot be measured"
	case facts.SourceTicks:
		f.State, f.Text = Warning,
			"in ticks: inexact below half a second of CPU time per trial, useless below some milliseconds"
		if system == "linux" {
			f.Fix = "use a kernel with CONFIG_SCHEDSTATS, such as that of Debian or Ubuntu"
		}
	}
	return f
}

func cpuFinding(n int) Finding {
	f := Finding{Name: "cpus", State: Good, Text: fmt.Sprint(n)}
	if n < 2 {
		f.State = Warning
		f.Text += ": the load generator shares it with the contenders"
		f.Fix = "give this machine two CPUs or more"
	}
	return f
}

// leastRoom is roughly what a few images and a run need.
const leastRoom = 3 * unit.GiB

func roomFinding(name, path string) Finding {
	f := Finding{Name: name, State: Fact, Text: path + ": unavailable"}
	free, ok := freeBytes(existing(path))
	if !ok {
		return f
	}
	f.Text = fmt.Sprintf("%s: %s free", path, unit.Format(float64(free), "B"))
	f.State = Good
	if free < leastRoom {
		f.State = Warning
		f.Fix = "free some space: images and volumes need about " + leastRoom.String()
	}
	return f
}

// existing is path or the nearest folder above it that exists.
func existing(path string) string {
	for path != "/" && path != "." {
		if _, err := os.Stat(path); err == nil {
			return path
		}
		path = filepath.Dir(path)
	}
	return path
}

// BuilderFindings looks for the builder of images, if any are needed.
func BuilderFindings(images bool) (out []Finding, packages []string) {
	if !images {
		return nil, nil
	}
	return LookFor("mmdebstrap", "builds root images; without it only the bare host can be measured", "mmdebstrap",
		"debian-archive-keyring")
}

// programFindings looks for the programs that drivers do not check: the builder
// of images, and those of workloads that run on the bare host.
func programFindings() (out []Finding, packages []string) {
	out, packages = BuilderFindings(runtime.GOOS == "linux")
	// Several workloads may need the same program: list it once.
	add := func(found []Finding, more []string) {
		for _, f := range found {
			if !slices.ContainsFunc(out, func(have Finding) bool { return have.Name == f.Name }) {
				out = append(out, f)
			}
		}
		packages = append(packages, more...)
	}
	for _, doc := range WorkloadDocs() {
		for _, p := range doc.Programs {
			f, more := LookFor(p, "workload "+doc.Name+" needs it on the bare host", doc.Packages["debian"]...)
			add(f, more)
		}
		for _, p := range doc.PeerPrograms {
			f, more := LookFor(p, "workload "+doc.Name+" needs it here, as the load generator", doc.PeerPackages["debian"]...)
			add(f, more)
		}
	}
	if runtime.GOOS == "linux" {
		for _, p := range slices.Sorted(maps.Keys(network.Programs)) {
			add(LookFor(p, "networks of guests need it", network.Programs[p]))
		}
	}
	return out, packages
}

// LookFor looks for a program, also in the folders that only root has in its
// PATH, and returns the packages that contain it.
func LookFor(program, what string, debian ...string) ([]Finding, []string) {
	dirs := append(filepath.SplitList(os.Getenv("PATH")), "/usr/local/sbin", "/usr/sbin", "/sbin")
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // Debian keeps PostgreSQL's out of the PATH
	for _, dir := range append(dirs, versions...) {
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return []Finding{{Name: program, State: Good, Text: path}}, nil
		}
	}
	return []Finding{{Name: program, State: Missing, Text: what, Fix: installCommand(slices.Clone(debian), os.Getuid())}},
		debian
}

func agentFinding(at hosts.Controller) Finding {
	path, err := at.Agent()
	if err != nil {
		return Finding{Name: "bakeoff-agent", State: Missing, Text: err.Error()}
	}
	return Finding{Name: "bakeoff-agent", State: Good, Text: path}
}

// lacking is a program that a machine lacks.
type lacking struct {
	Finding
	packages []string
}

// missingThere looks for the programs of workloads on another machine, each
// once: for the bare host, and for the load generator.
func missingThere(ctx context.Context, host conn.Conn, by system.Installer) (out []lacking) {
	ctx, cancel := context.WithTimeout(ctx, CheckTime)
	defer cancel()
	seen := map[string]bool{}
	look := func(programs, packages []string, what string) {
		for _, p := range programs {
			if seen[p] {
				continue
			}
			seen[p] = true
			if have, err := preflight.Has(ctx, host, p); err == nil && !have {
				out = append(out, lacking{Finding{Name: p, State: Missing, Text: what, Fix: by.Line([]string{p}, packages)},
					packages})
			}
		}
	}
	for _, doc := range WorkloadDocs() {
		look(doc.Programs, doc.Packages["debian"], "workload "+doc.Name+" needs it on the bare host")
		look(doc.PeerPrograms, doc.PeerPackages["debian"], "workload "+doc.Name+" needs it there, as the load generator")
	}
	return out
}

// WorkloadDocs describes every workload, in order of their names.
func WorkloadDocs() []workload.Doc {
	docs := []workload.Doc{}
	for _, w := range workloadall.Parsers() {
		docs = append(docs, w.Doc())
	}
	slices.SortFunc(docs, func(x, y workload.Doc) int { return cmp.Compare(x.Name, y.Name) })
	return docs
}
