package bootpage

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/bootmodel"
	"bakeoff/judge/profile"
	"bakeoff/measure/boot/advice"
	"bakeoff/measure/boot/linux"
	"bakeoff/publish/chart/charttest"
	"bakeoff/publish/pagetest"
)

// debian is a real boot of Debian under emulation, which the source linux keeps for its
// tests.
func debian(t *testing.T) bootmodel.Recording {
	t.Helper()
	f, err := os.Open("../../measure/boot/linux/testdata/debian.txtar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	_, events, ok := bytes.Cut(text, []byte("-- events.txt --\n"))
	if !ok {
		_, events, ok = bytes.Cut(text, []byte(" --\n"))
	}
	if !ok {
		t.Fatal("the archive has no file")
	}
	r, err := linux.New().Read("debian", events)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Spans) < 500 {
		t.Fatalf("the boot has %d spans", len(r.Spans))
	}
	return r
}

func written(t *testing.T, name string, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The pages as a browser shows them, and what the script does: search, zoom, keyboard.
func TestPagesInABrowser(t *testing.T) {
	browser := pagetest.Open(t)
	r := debian(t)
	show := written(t, "show.html", func(w io.Writer) error {
		return Write(w, Boot{Name: "debian", Recording: r, Advice: advice.Find(r), Version: "test"})
	})
	comparison, err := profile.Compare([]bootmodel.Recording{r}, []bootmodel.Recording{delayed(r)}, profile.Apart)
	if err != nil {
		t.Fatal(err)
	}
	compare := written(t, "compare.html", func(w io.Writer) error {
		return WriteCompare(w, Sides{A: "before", B: "after", Comparison: comparison})
	})
	t.Run("show", func(t *testing.T) {
		browser.Check(t, show, pagetest.Budget{Bytes: 600_000, Requests: 1, Shift: .1})
	})
	t.Run("compare", func(t *testing.T) {
		browser.Check(t, compare, pagetest.Budget{Bytes: 200_000, Requests: 1, Shift: .02})
	})
	t.Run("show on paper", func(t *testing.T) { browser.Print(t, show) })
	t.Run("compare on paper", func(t *testing.T) { browser.Print(t, compare) })
	said := browser.Evaluate(t, show, `(() => {
		const q = document.getElementById("query"), out = [];
		q.value = "crypto";
		q.dispatchEvent(new Event("input"));
		out.push(document.getElementById("found").textContent);
		q.value = "(";
		document.getElementById("regexp").checked = true;
		q.dispatchEvent(new Event("input"));
		out.push(document.getElementById("found").textContent);
		q.value = "";
		q.dispatchEvent(new Event("input"));
		document.getElementById("in").click();
		out.push(document.getElementById("range").textContent);
		const first = document.querySelector("#flame g.b");
		first.focus();
		first.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown", bubbles: true}));
		out.push(document.getElementById("what").textContent);
		document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true}));
		out.push(document.getElementById("range").textContent);
		return out.join("\n");
	})()`)
	lines := strings.Split(said, "\n")
	if len(lines) != 5 || !regexp.MustCompile(`^\d+ spans match: .* in themselves`).MatchString(lines[0]) ||
		lines[1] != "This is not a regular expression." || !strings.HasPrefix(lines[2], "Shown: ") || lines[3] == "" ||
		lines[4] != "The whole boot is shown." {
		t.Errorf("the script said:\n%s", said)
	}
}

// delayed is a boot of which a span takes a tenth of a second longer: the last one that still
// ends before the boot.
func delayed(r bootmodel.Recording) bootmodel.Recording {
	out := r
	out.Spans = append([]bootmodel.Span(nil), r.Spans...)
	_, end, _ := r.Window()
	fits := func(i int) bool {
		_, at := r.Times(i)
		return out.Spans[i].Parent < 0 && !out.Spans[i].Open && at+1e8 <= end
	}
	last := len(out.Spans) - 1
	for last > 0 && !fits(last) {
		last--
	}
	out.Spans[last].End += int64(out.Clocks[out.Spans[last].Clock].Hz / 10)
	return out
}

// Nothing of a recording gets into a page unescaped, and the chart alone is well formed.
func TestHostileRecording(t *testing.T) {
	h := charttest.Hostile
	r := bootmodel.Recording{Schema: bootmodel.Schema, System: h, Clocks: []bootmodel.Clock{{Name: h, Source: h, Note: h,
		Hz: 1e9}},
		Tracks: []bootmodel.Track{{Name: h, ID: h, Parent: -1, Kind: bootmodel.KindKernel}},
		Spans:  []bootmodel.Span{{Name: h, Arg: h, Parent: -1, End: 1e9}, {Name: "\x1b[31m\u202e", Parent: 0, End: 5e8}},
		Marks:  []bootmodel.Mark{{Name: h, How: h}, {Name: h, At: 1e9}}, Notes: []bootmodel.Note{{Source: h, Text: h,
			Lost: true}}}
	b := Boot{Name: h, Recording: r, Advice: []bootmodel.Advice{{Name: h, Text: h, Knob: h, Argument: h}}, Version: h}
	c, err := profile.Compare([]bootmodel.Recording{r}, []bootmodel.Recording{delayed(r)}, profile.Apart)
	if err != nil {
		t.Fatal(err)
	}
	s := Sides{A: h, B: h, Comparison: c, Version: h, Cautions: []string{h}}
	for name, write := range map[string]func(io.Writer) error{
		"page": func(w io.Writer) error { return Write(w, b) }, "svg": func(w io.Writer) error { return SVG(w, b) },
		"compare": func(w io.Writer) error { return WriteCompare(w, s) },
		"text":    func(w io.Writer) error { return Text(w, b, 100) },
		"changes": func(w io.Writer) error { return CompareText(w, s, 100) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if strings.ContainsAny(text, "\x1b\u202e") {
			t.Errorf("%s has control characters", name)
		}
		if name != "text" && name != "changes" && strings.Contains(text, "<script>alert") {
			t.Errorf("%s has a script of the recording", name)
		}
		if name == "svg" {
			d := xml.NewDecoder(&out)
			for {
				if _, err := d.Token(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("the SVG is not well formed: %v", err)
				}
			}
		}
	}
}

// The terminal says how well a mark is placed, unless it was read on the clock of the figure.
func TestTextSaysHowWellAMarkIsPlaced(t *testing.T) {
	r := bootmodel.Recording{Schema: bootmodel.Schema,
		Clocks: []bootmodel.Clock{{Name: "host", Source: "bakeoff", Hz: 1e9, UncertaintyNS: bootmodel.Exact()}},
		Marks: []bootmodel.Mark{{Name: "asked", UncertaintyNS: bootmodel.Exact()},
			{Name: "root mounted", At: 6e8, UncertaintyNS: new(4.18e9)}, {Name: "serial", At: 7e8}}}
	var out bytes.Buffer
	if err := Text(&out, Boot{Name: "netbsd", Recording: r}, 120); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if !strings.Contains(text, "root mounted  ± 4.18 s\n") || !strings.Contains(text, " asked\n") ||
		!strings.Contains(text, " serial  ± unknown\n") {
		t.Error(text)
	}
}

// The terminal says what was lost first, and names the delay.
func TestText(t *testing.T) {
	r := debian(t)
	var out bytes.Buffer
	if err := Text(&out, Boot{Name: "debian", Recording: r, Advice: advice.Find(r)}, 120); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first userland instruction", "own time", "crypto", "To try"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	c, err := profile.Compare([]bootmodel.Recording{r, r}, []bootmodel.Recording{delayed(r), delayed(r)}, profile.Paired)
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	s := Sides{A: "before", B: "after", Comparison: c, Cautions: []string{"The CPU was emulated."}}
	if err := CompareText(&out, s, 120); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "▼ +100 ms, exact") || !strings.Contains(out.String(), "exactly the same time") ||
		!strings.Contains(out.String(), "The CPU was emulated.") {
		t.Error(out.String())
	}
	out.Reset()
	if err := CompareJSON(&out, s); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Deterministic bool
		Cautions      []string
		Spans         []struct {
			Path       []string
			Difference float64
			Exact      bool
		}
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if !doc.Deterministic || len(doc.Spans) != 1 || doc.Spans[0].Difference != 1e8 || !doc.Spans[0].Exact ||
		!slices.Equal(doc.Cautions, s.Cautions) {
		t.Errorf("%+v", doc)
	}
}
