package queue

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
)

const uuid = "0f8fad5b-d9cb-469f-a165-70867728950e"

const clusterFile = `schema: bakeoff/cluster/v1
program: [sudo, -n, /usr/local/bin/bakeoff]
patience: 5m
pools:
  epyc: {partition: lab, feature: zen4, limit: 2h}
  bsd:
    partition: proxy
    hosts: {fbsd1: {ssh: root@fbsd1.example, node: px1}}
`

func TestClusterFile(t *testing.T) {
	c, err := Parse("cluster.yaml", []byte(clusterFile))
	if err != nil {
		t.Fatal(err)
	}
	argv, err := c.argv("bk1", "queue")
	if want := "ssh -oBatchMode=yes -oConnectTimeout=10 bk1 sudo -n /usr/local/bin/bakeoff queue"; err != nil ||
		strings.Join(argv, " ") != want {
		t.Errorf("argv: %q, %v", argv, err)
	}
	if got := c.LimitOf([]string{"epyc"}); got != 2*time.Hour {
		t.Errorf("the limit is %v", got)
	}
	if c.node("fbsd1") != "px1" || c.Address("fbsd1") != "root@fbsd1.example" || c.Address("bk1") != "root@bk1" {
		t.Errorf("node %q, addresses %q and %q", c.node("fbsd1"), c.Address("fbsd1"), c.Address("bk1"))
	}
	if _, err := c.argv("-oProxyCommand=x"); err == nil {
		t.Error("a host may be an option of ssh")
	}
}

func TestClusterFileMistakes(t *testing.T) {
	for _, tt := range []struct{ old, new, want string }{
		{"cluster/v1", "cluster/v2", "cluster.yaml:1:9: the schema is"},
		{"patience: 5m", "patience: soon", `cluster.yaml:3:11: "soon" is not a time`},
		{"partition: lab", "partition: -x", `cluster.yaml:5:21: "-x" is not the name of a partition`},
		{"feature: zen4", "feature: a&b", `is not the name of a feature`},
		{"feature: zen4", "futures: a", `unknown key "futures"`},
		{"ssh: root@fbsd1.example", "ssh: -oProxyCommand=x", `host "fbsd1" has no address`},
		{", node: px1", "", `host "fbsd1" names no node`},
		{"program: [sudo, -n, /usr/local/bin/bakeoff]", "program: []", "cluster.yaml:2:10: program is empty"},
	} {
		_, err := Parse("cluster.yaml", []byte(strings.Replace(clusterFile, tt.old, tt.new, 1)))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.new, err, tt.want)
		}
	}
}

func TestEntries(t *testing.T) {
	out := "12|RUNNING|bk1|bk1|ann|2026-11-28T10:00:00|None|bsd1:1,bsd2|bakeoff-x|" + uuid + "\n" +
		"13|PENDING||bk[1-2]|bob|N/A|Priority|(null)|x|y|not a UUID|\n"
	got, err := parseEntries(out)
	want := []Entry{
		{ID: "12", State: "RUNNING", Nodes: "bk1", User: "ann", Since: "2026-11-28T10:00:00", Reason: "None",
			UUID: uuid, Name: "bakeoff-x", licenses: []string{"bsd1", "bsd2"}},
		{ID: "13", State: "PENDING", Nodes: "bk[1-2]", User: "bob", Reason: "Priority", Name: "x"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := parseEntries("12|RUNNING\n"); err == nil {
		t.Error("a line with two columns is accepted")
	}
}

func TestNodes(t *testing.T) {
	out := "bk1|idle|2|4000|class_a,zen4|lab|Unknown|Unknown|none\n" +
		"bk1|idle|2|4000|class_a,zen4|night|Unknown|Unknown|none\n" +
		"bk2|drained|64+|4000|(null)|lab*|2026-11-28T10:00:00|root|noisy | 9 %\n"
	got, err := parseNodes(out)
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := got[0]; !n.Up() || !n.has(Pool{Partition: "night", Feature: "zen4"}) ||
		n.has(Pool{Partition: "lab", Feature: "zen"}) {
		t.Errorf("%+v", n)
	}
	if n := got[1]; n.Up() || n.Reason != "noisy | 9 %" || n.CPUs != 64 || n.Partition[0] != "lab" {
		t.Errorf("%+v", n)
	}
	for state, up := range map[string]bool{"idle": true, "idle*": false, "mixed": true, "down": false, "draining": false,
		"allocated+": true, "unknown": false} {
		if (Node{State: state}).Up() != up {
			t.Errorf("%s: up is %v", state, !up)
		}
	}
}

func TestExpand(t *testing.T) {
	for list, want := range map[string]string{"bk1": "bk1", "bk[1-3,07],px1": "bk1 bk2 bk3 bk07 px1", "": "",
		"bk[08-10]x": "bk08x bk09x bk10x", "bk[1": "bk[1", "a[3-1]": "a[3-1]"} {
		if got := strings.Join(expand(list), " "); got != want {
			t.Errorf("%s: %q, want %q", list, got, want)
		}
	}
}

// order is a parcel in a script, as Slurm gives it to a host.
func order(t testing.TB) []byte {
	t.Helper()
	parcel, err := Parcel(Order{UUID: uuid, Profile: "ci", Limit: time.Hour}, []byte("schema: x\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return script(&Cluster{Program: []string{"/opt/my bakeoff"}}, uuid, []string{"box=bk1=root@bk1"}, parcel)
}

func TestScriptBecomesBakeoff(t *testing.T) {
	want := "\nexec '/opt/my bakeoff' queue node job " + uuid + " \"$0\" 'box=bk1=root@bk1'\n#:"
	if s := string(order(t)); !strings.Contains(s, want) {
		t.Errorf("%.300s", s)
	}
}

func TestHostDoesAJobOnce(t *testing.T) {
	h := Host{Dir: t.TempDir()}
	status := func() Result {
		t.Helper()
		var out bytes.Buffer
		err := h.Send(&out, uuid, false)
		r, err2 := receive(&out, nil)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := status(); r.State != HostNone {
		t.Errorf("before: %+v", r)
	}
	w, err := h.Begin(t.Context(), order(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(w.Args("bk1", nil), " "); got != "run --profile ci --out "+w.Runs+" -- "+w.Lab {
		t.Errorf("args: %s", got)
	}
	if r := status(); r.State != HostRunning {
		t.Errorf("while it runs: %+v", r)
	}
	if err := h.Fence(uuid); err != nil {
		t.Error(err)
	}
	// The second start of a job waits for the first.
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := h.Begin(ctx, order(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second start: %v", err)
	}
	run := filepath.Join(w.Runs, "20260102T030405Z-x")
	for _, f := range []string{"journal.ndjson", "report/index.html"} {
		path := filepath.Join(run, f)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	w.Close() // killed
	if r := status(); r.State != HostInterrupted || r.Run != "20260102T030405Z-x" || r.Bytes != 2 || r.Starts != 1 {
		t.Errorf("killed: %+v", r)
	}
	if w, err = h.Begin(t.Context(), order(t)); err != nil {
		t.Fatal(err)
	}
	if args := w.Args("bk1", nil); args[len(args)-2] != "--resume" || args[len(args)-1] != run {
		t.Errorf("args: %q", args)
	}
	if err := w.End(HostDone, 4, ""); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if w, err = h.Begin(t.Context(), order(t)); err != nil || w.Ended == nil || *w.Ended.Code != 4 {
		t.Fatalf("a third start: %+v, %v", w, err)
	}
	w.Close()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var out bytes.Buffer
	if err := h.Send(&out, uuid, true); err != nil {
		t.Fatal(err)
	}
	r, err := receive(&out, root)
	if text, e := root.ReadFile("run/report/index.html"); err != nil || e != nil || string(text) != "x\n" || *r.Code != 4 {
		t.Errorf("%+v, %v, %v", r, err, e)
	}
	if err := h.Drop(uuid); err != nil {
		t.Error(err)
	}
	if r := status(); r.State != HostDone {
		t.Errorf("dropped: %+v", r)
	}
}

func TestFencedJobDoesNotBegin(t *testing.T) {
	h := Host{Dir: t.TempDir()}
	if err := h.Fence(uuid); err != nil {
		t.Fatal(err)
	}
	w, err := h.Begin(t.Context(), order(t))
	if err != nil || w.Ended == nil || w.Ended.State != HostFenced {
		t.Fatalf("%+v, %v", w, err)
	}
	w.Close()
}

// hostile is an answer with one file of a name.
func hostile(t testing.TB, h tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	err := addBytes(w, resultEntry, []byte(`{"schema":"`+resultSchema+`","uuid":"`+uuid+`","state":"done","code":0,`+
		`"run":"x","starts":1,"bytes":1}`))
	if err := errors.Join(err, w.WriteHeader(&h), w.Close(), z.Close()); err != nil && h.Size == 0 {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestHostileAnswersAreRefused(t *testing.T) {
	for _, h := range []tar.Header{
		{Name: "../x", Typeflag: tar.TypeReg}, {Name: "/etc/x", Typeflag: tar.TypeReg},
		{Name: "run/l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, {Name: "run/d", Typeflag: tar.TypeChar},
		{Name: "run/big", Typeflag: tar.TypeReg, Size: maxUnpacked + 1},
	} {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := receive(bytes.NewReader(hostile(t, h)), root); err == nil {
			t.Errorf("%s is accepted", h.Name)
		}
		root.Close()
	}
}

func TestAddAndFold(t *testing.T) {
	q := &Queue{Dir: t.TempDir(), Cluster: &Cluster{Tries: 3}}
	ids, err := q.Add([]Ask{{Lab: "x", Pools: []string{"a"}, Bind: []string{""}, At: time.Now()}},
		func(Ask) ([]byte, error) { return []byte("p"), nil })
	if err != nil {
		t.Fatal(err)
	}
	h, err := q.lockJob(t.Context(), ids[0], false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.lockJob(t.Context(), ids[0], false); !errors.Is(err, errBusy) {
		t.Errorf("a second holder: %v", err)
	}
	code := 3
	for _, l := range []line{{Type: lineSubmit, Hosts: []string{"bk1"}}, {Type: lineQueued, ID: "7"},
		{Type: lineAgain, Counts: true, Hosts: []string{"bk1"}, Reason: "noisy"},
		{Type: lineSubmit, Hosts: []string{"bk2"}}} {
		if err := h.add(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.recordEnd(h, line{State: Done, Code: &code}); err != nil {
		t.Fatal(err)
	}
	h.release()
	j, err := q.Find(ids[0][:6])
	if err != nil || j.State != Done || *j.Code != 3 || j.Tries != 1 || j.Submitted != 2 ||
		!reflect.DeepEqual(j.abandoned, []string{"bk1"}) || j.Hosts[0] != "bk2" {
		t.Errorf("%+v, %v", j, err)
	}
	if open, _ := q.Jobs(false); len(open) != 0 {
		t.Errorf("%d jobs have not ended", len(open))
	}
	if err := q.Retry(t.Context(), ids[0]); !fault.Is(err, fault.Invalid) {
		t.Errorf("retry of a job that is done: %v", err)
	}
}

func FuzzForeign(f *testing.F) {
	f.Add([]byte(clusterFile))
	f.Add(order(f))
	f.Add(hostile(f, tar.Header{Name: "run/x", Typeflag: tar.TypeReg}))
	f.Add([]byte("12|RUNNING|bk[1-3]|bk1|ann|2026|None|a:1|x|" + uuid + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := Parse("x", b); err == nil {
			if _, err := c.argv("bk1"); err != nil {
				t.Error(err)
			}
		}
		if entries, err := parseEntries(string(b)); err == nil {
			for _, e := range entries {
				expand(e.Nodes)
			}
		}
		_, _ = parseNodes(string(b))
		expand(string(b))
		dir := t.TempDir()
		if parcel, err := parcelOf(b); err == nil {
			_ = openParcel(parcel, dir)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if r, err := receive(bytes.NewReader(b), root); err == nil && !validUUID(r.UUID) {
			t.Errorf("the UUID is %q", r.UUID)
		}
	})
}

func TestEntriesOfOtherHostsDoNotFit(t *testing.T) {
	c, err := Parse("cluster.yaml", []byte(clusterFile))
	if err != nil {
		t.Fatal(err)
	}
	q := &Queue{Cluster: c}
	h := &held{Job: Job{Hosts: []string{"bk2", "bk1"}}}
	for nodes, want := range map[string]bool{"bk[1-2]": true, "bk1,bk2": true, "bk1": false, "bk[1-3]": false, "": false} {
		if q.fits(h, Entry{Nodes: nodes}) != want {
			t.Errorf("%q fits: %v", nodes, !want)
		}
	}
	if h.Hosts = []string{"fbsd1"}; !q.fits(h, Entry{Nodes: "px1"}) {
		t.Error("a license does not fit its node")
	}
}
