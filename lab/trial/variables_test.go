package trial

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/lab/evidence"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/preflight"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// ear is an environment that hears which programs are started in it.
type ear struct {
	*book
	heard *[]conn.Cmd
}

func (e ear) Exec(_ context.Context, cmd conn.Cmd) (conn.Exit, error) {
	*e.heard = append(*e.heard, cmd)
	return conn.Exit{}, nil
}

// SettleVolume makes it a driver.Storer.
func (e ear) SettleVolume(context.Context, string) (volume.Usage, error) {
	return volume.Usage{UsedBytes: 7}, nil
}

type hearing struct {
	*shelf
	heard map[string]*[]conn.Cmd // by contender
}

func (h hearing) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	in, err := h.shelf.Create(ctx, host, spec)
	if err != nil {
		return nil, err
	}
	if h.heard[spec.Name] == nil {
		h.heard[spec.Name] = &[]conn.Cmd{}
	}
	return ear{in.(*book), h.heard[spec.Name]}, nil
}

// scaled is a workload whose value is its parameter: what it is called with
// decides what it measures.
type scaled struct {
	*dice
	t *testing.T
}

func (s scaled) Doc() workload.Doc {
	d := s.dice.Doc()
	d.Name = "scaled"
	d.Params = []param.Spec{{Name: "speed", Kind: param.Number, Required: true}, {Name: "env", Kind: param.List}}
	return d
}

func (s scaled) Prepare(ctx context.Context, t execution.Target, p param.Values) error {
	return s.start(ctx, t, "prepare", p)
}

func (s scaled) Reset(ctx context.Context, t execution.Target, p param.Values) error {
	return s.start(ctx, t, "reset", p)
}

func (s scaled) Run(ctx context.Context, t execution.Target, p param.Values) (workload.Raw, error) {
	if err := s.start(ctx, t, "run", p); err != nil {
		return nil, err
	}
	v := p.Number("speed") * (1 + float64(s.count.Add(1)*7919%13)/1000)
	return workload.Raw{"value": []byte(strconv.FormatFloat(v, 'g', -1, 64))}, nil
}

func (s scaled) start(ctx context.Context, t execution.Target, stage string, p param.Values) error {
	_, err := t.Subject.Exec(ctx, conn.Cmd{Argv: []string{stage, p["speed"]}, Env: []string{"LC_ALL=C"}})
	return err
}

// Parse refuses a value that another parameter gave.
func (s scaled) Parse(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	values, err := s.dice.Parse(raw, p)
	if err == nil && (values[0].Value < p.Number("speed") || values[0].Value > 1.1*p.Number("speed")) {
		return nil, fault.New(fault.Invalid, "%v is not of speed %s", values[0].Value, p["speed"])
	}
	return values, err
}

const variantsLab = `schema: bakeoff/lab/v1
name: variants
contenders:
  - {name: one, driver: shelf, params: {try: {speed: 1000}}}
  - {name: two, driver: shelf, params: {try: {speed: 2000}}, env: {LC_ALL: C.UTF-8, GOGC: "off"}}
baseline: one
cells: [{name: try, workload: scaled, primary: true}]
design: {looks: [8], alphas: [.05]}
`

// Two contenders of one driver run one workload, each with its own parameters
// and variables: they are prepared, run, read and judged with them, and the
// folder verifies.
func TestVariants(t *testing.T) {
	b := &bench{t: t, base: t.TempDir(), shelf: &shelf{name: "shelf"}, dice: &dice{}, lab: []byte(variantsLab)}
	h := hearing{b.shelf, map[string]*[]conn.Cmd{}}
	b.drivers = []driver.Driver{h}
	workloads := []execution.Runner{scaled{b.dice, t}}
	cat := preflight.CatalogueOf(b.drivers, workloads)
	lab, err := manifest.Parse("bakeoff.yaml", b.lab, cat, "")
	if err != nil {
		t.Fatal(err)
	}
	if b.plan, err = plan.Expand(lab, cat, 1, "test"); err != nil {
		t.Fatal(err)
	}
	o, done := b.options(t.Context())
	defer done()
	o.Workloads = workloads
	out, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c := out.Results.Comparisons[0]
	if c.Verdict != "better" || *c.Ratio < 1.98 || *c.Ratio > 2.02 || out.Results.Twin.Different {
		t.Errorf("%+v, want two twice as fast, and a twin that does not differ", c)
	}
	for contender, want := range map[string]string{"one": "1000", "one~twin": "1000", "two": "2000"} {
		heard := *h.heard[contender]
		stages := map[string]bool{}
		for _, cmd := range heard {
			if len(cmd.Argv) != 2 {
				continue // the agent's, for the fingerprint
			}
			stages[cmd.Argv[0]] = true
			if cmd.Argv[1] != want {
				t.Errorf("%s: %q, want %s", contender, cmd.Argv, want)
			}
			env := []string{"LC_ALL=C"}
			if contender == "two" { // what the workload sets stays
				env = []string{"GOGC=off", "LC_ALL=C"}
			}
			if !slices.Equal(cmd.Env, env) {
				t.Errorf("%s %q: variables %q, want %q", contender, cmd.Argv, cmd.Env, env)
			}
		}
		if len(stages) != 3 {
			t.Errorf("%s: stages %v", contender, slices.Sorted(maps.Keys(stages)))
		}
	}
	r, err := evidence.Verify(o.Run, execution.Parsers(workloads), &cat)
	if err != nil || !r.OK() || len(r.Notes) > 0 {
		t.Errorf("verify: %v, %v, %v", err, r.Findings, r.Notes)
	}
}

// An instance with variables is still what it was for those who ask.
func TestVariablesKeepWhatAnInstanceCan(t *testing.T) {
	heard := &[]conn.Cmd{}
	plain := &book{shelf: &shelf{name: "shelf"}}
	if in := withEnv(plain, nil); in != driver.Instance(plain) {
		t.Error("without variables it is another instance")
	}
	if _, ok := withEnv(plain, map[string]string{"A": "1"}).(driver.Storer); ok {
		t.Error("it can settle volumes that it does not have")
	}
	in := withEnv(ear{plain, heard}, map[string]string{"A": "1"})
	s, ok := in.(driver.Storer)
	if !ok {
		t.Fatal("it cannot settle volumes any more")
	}
	if u, err := s.SettleVolume(t.Context(), "/data"); err != nil || u.UsedBytes != 7 {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := in.Exec(t.Context(), conn.Command("true")); err != nil ||
		!slices.Equal((*heard)[0].Env, []string{"A=1"}) {
		t.Errorf("%v, %v", *heard, err)
	}
}

// The variables of an image reach its programs, unless the contender sets them.
func TestVariablesOfImages(t *testing.T) {
	own := map[string]string{"A": "contender", "B": "contender"}
	img := driver.Image{Start: &driver.Start{Env: []string{"A=image", "C=image=1", "C=image=2", "D="}}}
	want := map[string]string{"A": "contender", "B": "contender", "C": "image=2", "D": ""}
	if got := environ(img, own); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if len(own) != 2 {
		t.Errorf("the variables of the contender changed: %v", own)
	}
	if got := environ(driver.Image{}, own); !maps.Equal(got, own) {
		t.Errorf("an image without variables: %v", got)
	}
}

// named is a workload that starts what the image names.
type named struct{ *dice }

func (named) ProgramParam(param.Values) string { return "argv" }

// If an image decides how programs start, the facts of all contenders say how they do.
func TestFactsOfStarts(t *testing.T) {
	dice := named{&dice{}}
	p := &plan.Plan{Cells: []plan.Cell{{Cell: manifest.Cell{Workload: dice.Doc().Name}}}}
	mine := &side{image: driver.Image{Start: &driver.Start{User: "app", Dir: "/srv", Argv: []string{"/app", "a b"}}}}
	bare, empty := &side{}, &side{image: driver.Image{Start: &driver.Start{}}}
	r := &runner{sides: []*side{mine, bare, empty}}
	r.Plan, r.Workloads = p, []execution.Runner{dice}
	for _, c := range []struct {
		of   *side
		want map[string]string
	}{
		{mine, map[string]string{"start.user": "app", "start.folder": "/srv", "start.program": "/app 'a b'"}},
		{bare, map[string]string{"start.user": "root", "start.folder": "a private folder"}},
		{empty, map[string]string{"start.user": "root", "start.folder": "a private folder"}},
	} {
		if got := r.startFacts(c.of); !maps.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
	p.Cells[0].Params = param.Values{"argv": "x"}
	if got := r.startFacts(mine); got["start.program"] != "" {
		t.Errorf("the lab file names the program, and the facts are %v", got)
	}
	if r.sides = []*side{bare, empty}; len(r.startFacts(bare)) != 0 {
		t.Error("no image names a user, and the facts do")
	}
	r.sides, r.Workloads = []*side{mine}, []execution.Runner{dice.dice}
	if len(r.startFacts(mine)) != 0 {
		t.Error("no workload starts programs as the image says, and the facts do")
	}
}
