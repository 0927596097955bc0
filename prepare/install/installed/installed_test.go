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
		`{"schema": 2}`: "schema 2, not 1",
		"{\"schema\": 1,\n\"ram_bytes\": \"much\"}": "facts.json:2: ram_bytes must not be a JSON string",
		`{"schema": 1, "zfs": {"p": {"a": ["b"]}}}`: "a property must be a string or [value, source]",
		`{"schema": 1, "zfs": {"p": {"a": 7}}}`:     "a property must be a string or [value, source]",
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
