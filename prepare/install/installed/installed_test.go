package installed

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

const facts = `{"schema": 1, "os": {"id": "void", "init": "runit"}, "ram_bytes": 1,
 "zfs": {"p": {"mountpoint": ["/", "local"], "keystatus": "available"}},
 "snapshots": ["p@a", "p@b"], "initramfs": {"boot/i": {"mode": "0600", "hostid": null, "zpool_cache": null}}}`

func TestRead(t *testing.T) {
	s, err := Read("facts.json", strings.NewReader(facts))
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Datasets["p"]["mountpoint"]; p.Value != "/" || !p.Local() {
		t.Errorf("mountpoint %+v", p)
	}
	if p := s.Datasets["p"]["keystatus"]; p.Value != "available" || p.Local() {
		t.Errorf("keystatus %+v", p)
	}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read("written", strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	again.Initramfs, s.Initramfs = nil, nil // null becomes the text null
	if !reflect.DeepEqual(s, again) {
		t.Errorf("read %+v\nread again %+v", s, again)
	}
}

// TestReadUnknownProperty checks that null is not an empty value.
func TestReadUnknownProperty(t *testing.T) {
	const text = `{"a":null,"b":[null,"local"],"c":["","local"],"d":["x",null],"e":""}`
	want := Dataset{"a": {Unknown: true}, "b": {Source: "local", Unknown: true}, "c": {Source: "local"}, "d": {Value: "x"},
		"e": {}}
	var got Dataset
	if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if data, err := json.Marshal(got); err != nil || string(data) != strings.Replace(text, `["x",null]`, `"x"`, 1) {
		t.Errorf("%s, %v", data, err)
	}
}

func TestReadSnapshots(t *testing.T) {
	for _, text := range []string{`["a@1","b@2"]`, `[{"name":"a@1"},{"name":"b@2"}]`, `{"b@2":{},"a@1":{}}`} {
		var s Snapshots
		if err := json.Unmarshal([]byte(text), &s); err != nil || !reflect.DeepEqual(s, Snapshots{"a@1", "b@2"}) {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
}

func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":              "facts.json:1: unexpected end of JSON input",
		"{\n\n x}":      "facts.json:3:",
		`{"schema": 2}`: "schema 2, but this program reads schema 1",
		"{\"schema\": 1,\n\"ram_bytes\": \"much\"}": "facts.json:2: ram_bytes must not be a JSON string",
		`{"schema": 1, "zfs": {"p": {"a": ["b"]}}}`: "a property must be a string or [value, source]",
		`{"schema": 1, "zfs": {"p": {"a": 7}}}`:     "a property must be a string or [value, source]",
		"[]":                                        "facts.json:1: the facts must not be a JSON array",
		`"x"`:                                       "facts.json:1: the facts must not be a JSON string",
		"null":                                      `facts.json: the facts must be a JSON object with "schema": 1`,
		"{}":                                        `facts.json: the facts must be a JSON object with "schema": 1`,
		`{"schema": 1, "mounts": [{"source": "p"}],` + "\n" + `"zfs": {"o": {"a": "b"},` + "\n" +
			`"p": {"b": "c",` + "\n" + `"a": [` + "\n" + `"b", 7]}}}`: `facts.json:4: zfs "p" a: a property must be a string` +
			` or [value, source] (got ["b",7])`,
	} {
		_, err := Read("facts.json", strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(facts)
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := Read("facts", strings.NewReader(text)); err == nil {
			s.ESPs()
			s.Names()
		}
	})
}

// TestHas recognizes the parts of a disk by their names, even those that the facts do not list.
func TestHas(t *testing.T) {
	d := Disk{ByID: "ata-X", Partitions: []Partition{{Device: "/dev/dk3", PartUUID: "ab"}}}
	for _, c := range []struct {
		disk, device string
		want         bool
	}{
		{"sda", "/dev/sda", true}, {"sda", "/dev/sda12", true}, {"sda", "/dev/sdaa", false}, {"sda", "/dev/sdaa1", false},
		{"loop1", "/dev/loop1p2", true}, {"loop1", "/dev/loop12", false}, {"loop1", "/dev/loop12p1", false},
		{"wd0", "/dev/wd0a", true}, {"wd0", "/dev/dk3", true}, {"wd0", "/dev/wd10", false}, {"wd0", "wd0e", true},
		{"sda", "/dev/disk/by-id/ata-X", true}, {"sda", "ata-X-part2", true}, {"sda", "/dev/disk/by-id/ata-XY", false},
		{"sda", "/dev/disk/by-partuuid/AB", true}, {"sda", "", false}, {"sda", "/dev/mapper/sda1", false},
	} {
		if d.Name = c.disk; d.Has(c.device) != c.want {
			t.Errorf("%s, %q: not %v", c.disk, c.device, c.want)
		}
	}
}
