package preflight

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/measure/tool/fio"
	external "bakeoff/measure/workload/external/runner"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/system/systemtest"
)

// hasFile is a host of a system whose package manager answers so.
func has(kernel, release string, says map[string]systemtest.Answer) *systemtest.Machine {
	m := runs(kernel, release)
	for line, answer := range says {
		m.Says[line] = answer
	}
	return m
}

// debianHas are the answers of a Debian host that has python3 only.
func debianHas(t *testing.T) *systemtest.Machine {
	t.Helper()
	const query = "dpkg-query -W -f=${db:Status-Status} "
	return has("Linux", "ID=debian\n", map[string]systemtest.Answer{query + "python3": {Stdout: "installed"},
		query + "zstd": {Code: 1}, query + "gcc": {Stdout: "config-files"}})
}

// A host must have the packages of its contenders before a run: nothing is installed.
func TestPackagesOfAHost(t *testing.T) {
	alpine := has("Linux", "ID=alpine\n", map[string]systemtest.Answer{"apk info -e python3": {},
		"apk info -e zstd": {Code: 1}})
	for _, tt := range []struct {
		what     string
		host     conn.Conn
		packages []string
		reason   string
		fix      string
		missing  string
	}{
		{"none", debianHas(t), nil, "", "", ""},
		{"all there", debianHas(t), []string{"python3"}, "", "", ""},
		{"one missing", debianHas(t), []string{"python3", "zstd"}, "its host lacks the package zstd (lab.yaml:4:7)",
			"apt-get install --no-install-recommends zstd", "zstd"},
		{"two missing", debianHas(t), []string{"gcc", "zstd"}, "its host lacks the packages gcc, zstd (lab.yaml:4:7)",
			"apt-get install --no-install-recommends gcc zstd", "gcc zstd"},
		{"another system", alpine, []string{"python3", "zstd"}, "its host lacks the package zstd (lab.yaml:4:7)",
			"apk add zstd", ""},
		{"an unknown system", runs("Linux", "ID=arch\n"), []string{"zstd"}, "", "", ""},
		{"no package manager", runs("Linux", "ID=debian\n"), []string{"zstd"},
			"look for the package zstd: dpkg-query: not found", "", ""},
	} {
		p := &plan.Plan{Contenders: []plan.Contender{{Contender: manifest.Contender{Name: "x", Driver: "shelf",
			Packages: tt.packages, Where: map[string]string{"packages": "lab.yaml:4:7"}}}}}
		answers := CheckOn(t.Context(), p, []driver.Driver{&shelf{name: "shelf"}},
			func(string) (conn.Conn, error) { return tt.host, nil })
		a := answers[0].Answer
		if a.OK != (tt.reason == "") || a.Reason != tt.reason || a.Fix != tt.fix ||
			strings.Join(a.Packages, " ") != tt.missing {
			t.Errorf("%s: %+v", tt.what, a)
		}
	}
}

// images is a driver that makes its environments from images, or from folders.
type images struct{ *shelf }

func (d images) Doc() driver.Doc {
	doc := d.shelf.Doc()
	doc.Image, doc.Folder, doc.OwnRoot = true, true, []string{"root=own"}
	return doc
}

// What nobody can look for is noted; what bakeoff builds or checks is not.
func TestPackagesThatNobodyChecks(t *testing.T) {
	x := func(driver, image string, options param.Values, packages ...string) manifest.Contender {
		return manifest.Contender{Name: "x", Driver: driver, Image: image, Options: options, Packages: packages}
	}
	debian, arch := debianHas(t), runs("Linux", "ID=arch\n")
	const install = "; install them before the run"
	for _, tt := range []struct {
		contender manifest.Contender
		host      conn.Conn
		want      string
	}{
		{x("images", "debian:bookworm", nil, "python3"), arch, ""},
		{x("images", "/srv/root", nil, "python3"), debian, "x asks for python3, and bakeoff can neither install nor check " +
			"packages there: its environments are created from the folder /srv/root" + install},
		{x("images", "/srv/root", nil), debian, ""},
		{x("images", "", param.Values{"root": "own"}, "gcc", "python3"), debian, "x asks for gcc, python3, and bakeoff can " +
			"neither install nor check packages there: the options of the driver select the root file system of its " +
			"environments" +
			install},
		{x("shelf", "", nil, "python3"), debian, ""},
		{x("shelf", "", nil, "python3"), arch, "x asks for python3, and bakeoff can neither install " +
			"nor check packages there: " +
			"it does not know the package manager of arch" + install},
		{x("shelf", "", nil, "python3"), &systemtest.Machine{}, "x asks for python3, and bakeoff can " +
			"neither install nor check " +
			"packages there: it does not know the package manager of a host with an unknown system" + install},
	} {
		v := inspector{plan: &plan.Plan{Contenders: []plan.Contender{{Contender: tt.contender}}}, known: map[string]string{},
			Site: Site{Drivers: []driver.Driver{images{&shelf{name: "images"}}, &shelf{name: "shelf"}},
				Way:  func(string) (conn.Conn, error) { return tt.host, nil },
				Size: func(string) (int, unit.Bytes, error) { return 4, unit.GiB, nil }}}
		if got := strings.Join(v.uncheckedPackages(t.Context(), func(string) bool { return true }), "\n"); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.contender, got, tt.want)
		}
	}
}

// An image has the packages of all workloads and those of its contender.
func TestPackagesOfAnImage(t *testing.T) {
	w := external.New(fio.New())
	p := &plan.Plan{Contenders: []plan.Contender{{}}, Cells: []plan.Cell{{Cell: manifest.Cell{Name: "a", Workload: "fio"}},
		{Cell: manifest.Cell{Name: "b", Workload: "fio"}}}}
	own := manifest.Contender{Packages: []string{"fio", "python3"}}
	got, err := Packages(p, []execution.Runner{w}, own)
	if err != nil || !slices.Equal(got, []string{"fio", "python3"}) {
		t.Errorf("%q (%v)", got, err)
	}
	if got, err := Packages(p, []execution.Runner{w}, manifest.Contender{}); err != nil ||
		!slices.Equal(got, []string{"fio"}) {
		t.Errorf("without packages of its own: %q (%v)", got, err)
	}
	if _, err := Packages(p, nil, own); err == nil {
		t.Error("a workload that does not exist has packages")
	}
}
