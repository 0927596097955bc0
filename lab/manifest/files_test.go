package manifest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/lists"
	"bakeoff/base/yamltree"
)

const withFiles = `
schema: bakeoff/lab/v1
name: versions
files:
  - {from: data, to: /opt/data}
  - {from: one, to: /opt/server}
contenders:
  - {name: old, driver: host}
  - {name: new, driver: host, files: [{from: "./v{v}", to: /opt/server, mode: 0755}], sweep: {v: [2, 3]}}
baseline: old
cells:
  - {name: hash, workload: crypto, params: {algorithm: sha256}, files: [{from: words, to: /opt/words, mode: "644"}]}
  - {name: more, workload: crypto, params: {algorithm: sha256}}
`

// fileCatalogue has a host that places files and a driver with an image or a root of
// its own.
func fileCatalogue() Catalogue {
	cat := withCommand()
	for i, d := range cat.Drivers {
		cat.Drivers[i].Files = d.Name == "host"
	}
	cat.Drivers = append(cat.Drivers, DriverEntry{Name: "cell", Image: true, Folder: true, OwnRoot: []string{"root=zfs"}})
	return cat
}

// A contender has the files of the lab, of the cells that are measured, and its own,
// which replace others at the same path. What is known of the contents is filled in.
func TestFilesOfAContender(t *testing.T) {
	l, err := Parse("lab.yaml", []byte(withFiles), fileCatalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	l.Packed = map[FileKey]Packed{{"./v3", "0755"}: {"sha256:3", 7}}
	names := func(c Contender) string {
		return strings.Join(lists.Map(l.FilesOf(c), func(f File) string { return f.From + f.Mode + f.Digest }), " ")
	}
	if got := names(l.Contenders[0]); got != "data one words0644" {
		t.Errorf("old has %s", got)
	}
	if got := names(l.Contenders[2]); got != "data ./v30755sha256:3 words0644" {
		t.Errorf("new-v-3 has %s", got)
	}
	if f := l.Contenders[1].Files[0]; f.Perm() != 0o755 || f.Where != "lab.yaml:9:39" {
		t.Errorf("%+v", f)
	}
	if err := l.Keep([]string{"more"}); err != nil || names(l.Contenders[0]) != "data one" {
		t.Errorf("without the cell hash: %s, %v", names(l.Contenders[0]), err)
	}
	var schema any
	if err := json.Unmarshal(JSONSchema(fileCatalogue()), &schema); err != nil {
		t.Fatal(err)
	}
	root := yamltree.Parse([]byte(withFiles), format, &yamltree.Reporter{File: "x"})
	if problem := evaluate(schema, plain(root)); problem != "" {
		t.Errorf("the schema refuses files: %s", problem)
	}
}

func TestWrongFiles(t *testing.T) {
	const lab = `
schema: bakeoff/lab/v1
name: x
files: [{from: a, to: /opt/a}]
contenders:
  - {name: old, driver: host, volumes: {/data: {backing: dir}}}
  - {name: new, driver: host, files: [FILES]}
baseline: old
cells: [{name: hash, workload: crypto, params: {algorithm: sha256}}]
`
	for files, want := range map[string]string{
		"{from: b, to: opt/b}":     "write an absolute path like /opt/server",
		"{from: b, to: /opt/../b}": "write /b",
		"{from: b, to: /usr}": "/usr is a folder of the system; write the path that the file " +
			"itself has there: /usr/b",
		"{from: b, to: /tmp/b}":                          "environments mount something over /tmp/b",
		"{from: b, to: /dev}":                            "environments mount something over /dev",
		"{from: b, to: /opt/b, mode: u+x}":               "mode is \"u+x\"; write permissions like 0755",
		"{from: b, to: /opt/b, mode: 4755}":              "write permissions like 0755",
		"{from: '', to: /opt/b}":                         "from is empty",
		"{to: /opt/b}":                                   "has no from",
		"{from: b, to: /opt/b}, {from: c, to: /opt/b}":   "/opt/b is already the place of b (lab.yaml:7:39)",
		"{from: b, to: /opt/b}, {from: c, to: /opt/b/c}": "/opt/b/c is below /opt/b, the place of b",
		"{from: b, to: /srv/b/c}, {from: c, to: /srv/b}": "/srv/b is above /srv/b/c",
		"{from: b, to: /opt/a/b}":                        "/opt/a/b is below /opt/a, the place of a (lab.yaml:4:9)",
		"{from: b, to: /opt/b, owner: me}":               "unknown key \"owner\"",
	} {
		_, err := Parse("lab.yaml", []byte(strings.Replace(lab, "FILES", files, 1)), fileCatalogue(), "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", files, err)
		}
	}
	for old, c := range map[string][2]string{
		"/opt/a}]":                {"/data/a}]", "the volume /data of contender \"old\" and the file at /data/a"},
		"driver: host, files: []": {"driver: cell, root: zfs", "bakeoff cannot place files"},
	} {
		src := strings.Replace(lab, "files: [FILES]", "files: []", 1)
		cat := fileCatalogue()
		cat.Drivers[len(cat.Drivers)-1].OwnRoot = []string{"*"}
		_, err := Parse("lab.yaml", []byte(strings.Replace(src, old, strings.Replace(c[0], ", root: zfs", "", 1), 1)), cat,
			"")
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v", c[0], err)
		}
	}
	src := strings.Replace(lab, "driver: host, files: [FILES]", "driver: cell, image: /srv/root", 1)
	if _, err := Parse("lab.yaml", []byte(src), fileCatalogue(), ""); err == nil ||
		!strings.Contains(err.Error(), "bakeoff cannot place files in /srv/root, a folder of the host; "+
			"put the files into its root") {
		t.Errorf("a folder as image: %v", err)
	}
	src = strings.Replace(lab, "driver: host, files: [FILES]", "driver: cell, image: \"disk:/srv/a.raw\"", 1)
	if _, err := Parse("lab.yaml", []byte(src), fileCatalogue(), ""); err == nil ||
		!strings.Contains(err.Error(),
			`bakeoff cannot place files in the image "disk:/srv/a.raw"; write the files to the disk`) {
		t.Errorf("a disk as image: %v", err)
	}
	if l, err := Parse("lab.yaml", []byte(strings.Replace(lab, "FILES", "{from: b, to: /opt/a}", 1)),
		fileCatalogue(), ""); err != nil ||
		!reflect.DeepEqual(lists.Map(l.FilesOf(l.Contenders[1]), func(f File) string { return f.From }), []string{"b"}) {
		t.Errorf("a contender cannot replace a file of the lab: %v", err)
	}
}
