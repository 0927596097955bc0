package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/lab/store/storetest"
	workloads "bakeoff/measure/workload/all"
)

// indexed measures the site of a folder of runs: the first build, builds without a change,
// and builds after one more run. The runs are made of a real one.
func indexed(count int, archive, bakeoff string) error {
	dir, err := os.MkdirTemp("", "bench-site-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m, err := newMaker(dir, archive, bakeoff)
	if err != nil {
		return err
	}
	for i := range count {
		if err := m.writeRun(i); err != nil {
			return err
		}
	}
	fmt.Printf("%d runs of %d lab files, each with %d kB of results, journal and plan and a page of %d kB\n", count,
		min(labs, count), m.size>>10, len(m.page)>>10)
	for n, what := range []string{"first build", "no change", "no change", "no change", "one more run", "one more run",
		"one more run"} {
		if what == "one more run" {
			if err := m.writeRun(count + n); err != nil {
				return err
			}
		}
		u, err := measure(dir, bakeoff, "site", "build", "runs")
		if err != nil {
			return err
		}
		printUsage("bakeoff, "+what, u)
	}
	return nil
}

// labs is the number of lab files that the runs are of. Each has its own contenders.
const labs = 20

// maker makes run folders of a real one: with other dates, seeds, orders, names and values.
type maker struct {
	dir      string // of the runs
	files    map[string][]byte
	plan     *plan.Plan
	lines    []store.Line
	page     []byte // the report of the real run
	size     int    // bytes of the files that an index reads
	others   []string
	baseline string
}

// newMaker reads an archive of a run folder, and has bakeoff write its report.
func newMaker(dir, archive, bakeoff string) (*maker, error) {
	_, files, err := storetest.Files(archive)
	if err != nil {
		return nil, err
	}
	m := &maker{dir: filepath.Join(dir, "runs"), files: files}
	if m.plan, err = plan.Decode(files[store.PlanFile]); err != nil {
		return nil, err
	}
	if m.lines, _, err = store.ReadJournal(bytes.NewReader(files[store.JournalFile])); err != nil {
		return nil, err
	}
	m.size = len(files[store.PlanFile]) + len(files[store.JournalFile]) + len(files[store.ResultsFile])
	m.baseline = m.plan.Baseline
	for _, c := range m.plan.Contenders {
		if c.Name != m.plan.Baseline && c.TwinOf == "" {
			m.others = append(m.others, c.Name)
		}
	}
	run := filepath.Join(dir, "real")
	for name, data := range files {
		if strings.HasPrefix(name, store.RawDir+"/") { // an index does not read it
			continue
		}
		if err := putFile(filepath.Join(run, name), data); err != nil {
			return nil, err
		}
	}
	if out, err := exec.Command(bakeoff, "report", run).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s report: %w: %s", bakeoff, err, out)
	}
	m.page, err = os.ReadFile(filepath.Join(run, filepath.FromSlash(store.ReportFile)))
	return m, err
}

func putFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}

// writeRun writes run i.
func (m *maker) writeRun(i int) error {
	k := i % labs
	lab := fmt.Sprintf("%s-%02d", m.plan.Lab, k)
	shift := time.Duration(i/labs) * 24 * time.Hour
	began := m.lines[0].At.Add(shift + time.Duration(k)*time.Minute)
	dir := filepath.Join(m.dir, store.Name(began, lab))
	source := m.renamed(m.files[store.LabFile], lab, k)
	p, err := m.expandPlan(source, uint64(i+1))
	if err != nil {
		return err
	}
	text, err := plan.Encode(p)
	if err != nil {
		return err
	}
	results, err := m.results(filepath.Base(dir), plan.Hash(text), k, i)
	if err != nil {
		return err
	}
	journal, err := m.journal(p, plan.Hash(text), k, shift+time.Duration(k)*time.Minute)
	if err != nil {
		return err
	}
	problems := []error{putFile(filepath.Join(dir, store.LabFile), source), putFile(filepath.Join(dir, store.PlanFile),
		text),
		putFile(filepath.Join(dir, store.ResultsFile), results), putFile(filepath.Join(dir, store.JournalFile), journal),
		putFile(filepath.Join(dir, filepath.FromSlash(store.ReportFile)), m.page)}
	for name, data := range m.files {
		base, ok := strings.CutPrefix(name, store.FingerprintDir+"/")
		if !ok {
			continue
		}
		base = m.contenderName(strings.TrimSuffix(base, ".json"), k) + ".json"
		model := regexp.MustCompile(`("cpu\.model": "[^"]*)"`)
		data = model.ReplaceAll(data, fmt.Appendf(nil, `$1, machine %d"`, k%5+1))
		problems = append(problems, putFile(filepath.Join(dir, store.FingerprintDir, base), data))
	}
	return errors.Join(problems...)
}

// contenderName is the name of a contender in lab file k.
func (m *maker) contenderName(contender string, k int) string {
	if slices.Contains(m.others, contender) {
		return fmt.Sprintf("%s-%02d", contender, k)
	}
	return contender
}

// renamed is the lab file with another name and other contenders.
func (m *maker) renamed(source []byte, lab string, k int) []byte {
	text := strings.Replace(string(source), "\nname: "+m.plan.Lab+"\n", "\nname: "+lab+"\n", 1)
	for _, c := range m.others {
		text = strings.Replace(text, "- name: "+c+"\n", "- name: "+m.contenderName(c, k)+"\n", 1)
	}
	return []byte(text)
}

// expandPlan makes a plan with a seed of its own.
func (m *maker) expandPlan(source []byte, seed uint64) (*plan.Plan, error) {
	cat, err := manifest.Written(workloads.Parsers())
	if err != nil {
		return nil, err
	}
	lab, err := manifest.Parse(store.LabFile, source, cat, m.plan.Profile)
	if err != nil {
		return nil, err
	}
	return plan.Expand(lab, cat, seed, m.plan.Version)
}

// journal is that of the real run, at another time and in the order of another plan.
func (m *maker) journal(p *plan.Plan, hash string, k int, shift time.Duration) ([]byte, error) {
	var out bytes.Buffer
	slots := map[int][]plan.Slot{}
	for _, l := range m.lines {
		l.At = l.At.Add(shift)
		if l.Type == store.LinePlan {
			l.PlanSHA256 = hash
		}
		l.Contender = m.contenderName(l.Contender, k)
		if l.Trial != nil {
			if slots[l.Block] == nil {
				slots[l.Block] = p.Blocks[l.Block].Slots()
			}
			t := *l.Trial
			t.Start, t.End = t.Start.Add(shift), t.End.Add(shift)
			l.Contender, t.Cell = slots[l.Block][t.Position].Contender, slots[l.Block][t.Position].Cell
			l.Trial = &t
		}
		text, err := json.Marshal(l)
		if err != nil {
			return nil, err
		}
		out.Write(append(text, '\n'))
	}
	return out.Bytes(), nil
}

// results are those of the real run with other names, and with values that differ from
// run to run by one per cent.
func (m *maker) results(name, hash string, k, i int) ([]byte, error) {
	var r map[string]any
	if err := json.Unmarshal(m.files[store.ResultsFile], &r); err != nil {
		return nil, err
	}
	noise := rand.New(rand.NewPCG(uint64(i), 3))
	m.renameAll(r, k, noise)
	r["run"], r["plan_sha256"], r["seed"] = name, hash, i+1
	return json.Marshal(r)
}

// renameAll renames contenders, and scales the samples of each metric.
func (m *maker) renameAll(v any, k int, noise *rand.Rand) {
	switch v := v.(type) {
	case map[string]any:
		for key, x := range v {
			if s, ok := x.(string); ok && key != "driver" {
				v[key] = m.contenderName(s, k)
			}
			if key != "samples" {
				m.renameAll(x, k, noise)
			}
		}
		if samples, ok := v["samples"].([]any); ok {
			factor := math.Exp(0.01 * noise.NormFloat64())
			for _, s := range samples {
				if s, ok := s.(map[string]any); ok {
					if x, ok := s["value"].(float64); ok {
						s["value"] = x * factor
					}
				}
			}
		}
	case []any:
		for _, x := range v {
			m.renameAll(x, k, noise)
		}
	}
}
