package preflight

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
)

// A program that only one contender names is missing there alone, and a cell in
// which each contender lacks its own can only fail.
func TestProgramsOfVariants(t *testing.T) {
	const contenders = "  - {name: base, driver: shelf, params: {try: {argv: [%s]}}}\n" +
		"  - {name: other, driver: shelf, params: {try: {argv: [/no/such/tool, -9]}}}\n"
	const cells = "  - {name: try, workload: command, primary: true}\n"
	s := look(t, strings.Replace(contenders, "%s", "sh", 1), cells+diceCell)
	if len(s.Absent) != 1 || s.Absent[0].Everywhere || !slices.Equal(s.Absent[0].Contenders, []string{"other"}) ||
		!strings.Contains(s.Absent[0].Fix, "params: {try: {argv: …}}") || s.Refusal() != nil || !s.Short() {
		t.Errorf("absent %+v, refused %v", s.Absent, s.Refusal())
	}
	if !s.Absent[0].Nowhere {
		t.Error("the other contender names another program")
	}
	s = look(t, strings.Replace(contenders, "%s", "/none", 1), cells)
	if len(s.Absent) != 2 || !s.Absent[0].Everywhere || s.Refusal() == nil {
		t.Errorf("absent %+v, refused %v", s.Absent, s.Refusal())
	}
}

// A mistake in the parameters of one contender is reported with its name, and so
// is a variable that has two values.
func TestMistakesOfVariants(t *testing.T) {
	s := look(t, "  - {name: base, driver: shelf, env: {LANG: C}, params: {try: {argv: [sh]}}}\n"+
		"  - {name: other, driver: shelf, params: {try: {argv: [sh], score: first-line, env: [LANG=en]}}}\n"+
		"  - {name: third, driver: shelf, env: {LANG: de}, params: {try: {argv: [sh], env: [LANG=en]}}}\n",
		"  - {name: try, workload: command, primary: true}\n")
	var all []string
	for _, err := range s.Wrong {
		all = append(all, err.Error())
	}
	want := []string{`cell try, contender other: command: score: invalid value "first-line"; ` +
		"write last-line, regexp:RE or json:PATH",
		"cell try and contender third both set the variable LANG; remove it from env of one of them"}
	if !slices.Equal(all, want) {
		t.Errorf("%q, want %q", all, want)
	}
}

// A cell without a program starts that of the image, so every contender needs an image
// that names one.
func TestProgramsOfImages(t *testing.T) {
	dice := named{&dice{}}
	contender := func(name, image string, params map[string]param.Values) plan.Contender {
		return plan.Contender{Contender: manifest.Contender{Name: name, Image: image, Params: params}}
	}
	cell := plan.Cell{Cell: manifest.Cell{Name: "try", Workload: dice.Doc().Name}}
	p := &plan.Plan{Cells: []plan.Cell{cell}, Contenders: []plan.Contender{
		contender("pulled", "example.org/app:1", nil), contender("built", "debian:bookworm", nil), contender("bare", "", nil),
		contender("own", "", map[string]param.Values{"try": {"argv": "sh"}})}}
	var all []string
	for _, err := range imagesWithoutProgram(p, cell, []execution.Runner{dice}) {
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%v is not invalid", err)
		}
		all = append(all, err.Error())
	}
	want := []string{"cell try names no program, and contender built has the image debian:bookworm, which names no " +
		"program; write argv: [program, argument]", "cell try names no program, and contender bare has no image " +
		"with a program; write argv: [program, argument]"}
	if !slices.Equal(all, want) {
		t.Errorf("%q, want %q", all, want)
	}
	if errs := imagesWithoutProgram(p, cell, []execution.Runner{dice.dice}); len(errs) > 0 {
		t.Errorf("a workload that starts no program of an image: %v", errs)
	}
}

// named is a workload that starts what the image names.
type named struct{ *dice }

func (named) ProgramParam(param.Values) string { return "argv" }

// A misspelled program is reported with the program that was meant.
func TestSimilarProgram(t *testing.T) {
	const cells = "  - {name: try, workload: command, primary: true}\n"
	s := look(t, "  - {name: base, driver: shelf, params: {try: {argv: [sh]}}}\n"+
		"  - {name: other, driver: shelf, params: {try: {argv: [slepe]}}}\n", cells)
	if len(s.Absent) != 1 || !s.Absent[0].Nowhere || s.Absent[0].Similar != "sleep" ||
		!strings.HasSuffix(s.Absent[0].String(), `(did you mean "sleep"?)`) {
		t.Errorf("%+v", s.Absent)
	}
	s = look(t, "  - {name: base, driver: shelf, params: {try: {argv: [no-such-program-at-all]}}}\n", cells)
	if len(s.Absent) != 1 || s.Absent[0].Similar != "" {
		t.Errorf("%+v", s.Absent)
	}
}
