package runner

import (
	"context"
	"encoding/json"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/cms"
	"bakeoff/measure/workload/http/load"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

func TestMain(m *testing.M) { workloadtest.Main(m, load.Loop()) }

// here is this machine with everything that the application needs. What is
// started is ended with the test.
func here(t *testing.T) execution.Target {
	t.Helper()
	if testing.Short() {
		t.Skip("starts PostgreSQL, PHP and nginx")
	}
	if _, err := findPrograms(t.Context(), local.Conn{}); err != nil {
		t.Skip("needs davical, nginx, php-fpm and postgresql: apt-get install davical nginx php-fpm php-pgsql postgresql")
	}
	if _, err := exec.LookPath("siege"); err != nil {
		t.Skip("needs siege: apt-get install siege")
	}
	target := workloadtest.Local(t)
	// Short: a socket's path has little room.
	dir, err := os.MkdirTemp("", "bo")
	if err != nil {
		t.Fatal(err)
	}
	instance := target.Subject.(*workloadtest.Instance)
	instance.Information.Scratch = dir
	target.Peer, target.PeerAgent, target.PeerDir = local.Conn{}, instance.Information.Agent, t.TempDir()
	target.Addr = workloadtest.Loopback()
	t.Cleanup(func() {
		workloadtest.Stop(t, syscall.SIGINT, dir+"/cms-*/nginx.pid", dir+"/cms-*/run/php.pid",
			instance.Information.Volumes["/data"]+"/*/postgresql-*/data/postmaster.pid")
		os.RemoveAll(dir)
	})
	return target
}

// hung reports whether siege hung at its end (package siege says why): it was
// killed then, and the block is void.
func hung(err error) bool {
	return fault.Is(err, fault.Lab) && strings.Contains(err.Error(), "siege failed with exit code 137 killed")
}

// The real application does its work under both generators, as the suite
// wants it of every workload.
func TestApplication(t *testing.T) {
	target := here(t)
	workloadtest.Run(t, New(), workloadtest.Options{
		Partial: true, Common: param.Values{"time": "2s", "users": "2", "events": "3", "processes": "2", "connections": "2"},
		Cells:  []param.Values{{"generator": "siege", "pages": "all"}},
		Target: func(*testing.T) execution.Target { target.State = map[string]string{}; return target },
		Void:   hung,
	})
}

// What a trial wrote is gone before the next; a page that is not what was
// stored, and a database that is not there, are told.
func TestReset(t *testing.T) {
	target, w := here(t), New()
	p := param.Defaults(w.Doc().Params)
	p["time"], p["users"], p["events"], p["processes"], p["connections"] = "1s", "2", "3", "2", "2"
	if err := w.Prepare(t.Context(), target, p); err != nil {
		t.Fatal(err)
	}
	s, err := recallSite(target, p)
	if err != nil {
		t.Fatal(err)
	}
	sql := func(database, statement string) {
		t.Helper()
		if _, err := s.db.SQL(t.Context(), database, statement); err != nil {
			t.Fatal(err)
		}
	}
	sql(live, "DELETE FROM caldav_data")
	if err := s.checkPages(t.Context()); !fault.Is(err, fault.Subject) {
		t.Errorf("calendars without events are %v", err)
	}
	if err := w.Reset(t.Context(), target, p); err != nil {
		t.Errorf("not restored: %v", err)
	}
	if s.known.Facts["fsync"] != "on" || s.known.Facts["davical"] == "" || s.known.Facts["php"] == "" {
		t.Errorf("facts %v", s.known.Facts)
	}

	// The database goes in the middle of a trial: not one good response.
	sql("postgres", "DROP DATABASE "+live+" WITH (FORCE)")
	raw, err := w.Run(t.Context(), target, p)
	if err != nil {
		t.Fatal(err)
	}
	if values, err := w.Parse(raw, p); !fault.Is(err, fault.Subject) {
		t.Errorf("a trial without a database gives %v, %v", values, err)
	}
	sql("postgres", "ALTER DATABASE "+s.template()+" RENAME TO gone")
	if err := w.Reset(t.Context(), target, p); !fault.Is(err, fault.Subject) ||
		!strings.Contains(err.Error(), "the template database is missing") {
		t.Errorf("Reset without a seed: %v", err)
	}
}

// Cells of one environment share what the first has brought up, and each trial
// is preceded by a restored database all the same.
func TestCellsShareASite(t *testing.T) {
	target, w := here(t), New()
	target.Shared = map[string]string{}
	p := param.Defaults(w.Doc().Params)
	p["time"], p["users"], p["events"], p["processes"], p["connections"] = "1s", "2", "3", "2", "2"
	if err := w.Prepare(t.Context(), target, p); err != nil {
		t.Fatal(err)
	}
	first, err := recallSite(target, p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.db.SQL(t.Context(), live, "DELETE FROM caldav_data"); err != nil {
		t.Fatal(err)
	}
	other := target
	other.State = map[string]string{}
	q := maps.Clone(p)
	q["generator"], q["pages"] = "siege", "calendar"
	if err := w.Prepare(t.Context(), other, q); err != nil {
		t.Fatalf("the second cell: %v", err)
	}
	second, err := recallSite(other, q)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.checkPages(t.Context()); !fault.Is(err, fault.Subject) {
		t.Errorf("the second cell has another site, or restored the first's: %v", err)
	}
	if err := w.Reset(t.Context(), other, q); err != nil {
		t.Errorf("reset: %v", err)
	}
	if first.known.Facts["siege"] != "" || second.known.Facts["siege"] == "" ||
		second.known.Facts["php"] != first.known.Facts["php"] {
		t.Errorf("facts %v and %v", first.known.Facts, second.known.Facts)
	}
	q["users"] = "1"
	if s, up, err := sharedSite(other, q); err != nil || up {
		t.Errorf("another site %s is up: %v", s.key, err)
	}
}

// lacking is an environment in which the search for programs finds less.
type lacking struct {
	driver.Instance
	said string
}

func (l lacking) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if len(cmd.Argv) == 3 && cmd.Argv[2] == finder {
		_, err := cmd.Stdout.Write([]byte(l.said))
		return conn.Exit{}, err
	}
	return l.Instance.Exec(ctx, cmd)
}

// What is missing is said before the first trial, with what would bring it.
func TestWhatIsMissing(t *testing.T) {
	w := New()
	p := param.Defaults(w.Doc().Params)
	for said, want := range map[string]string{
		"\n/usr/sbin/php-fpm8.2\n/usr/share/davical\nnginx\n": "PostgreSQL is missing",
		"/pg\n\n/usr/share/davical\nnginx\n":                  "php-fpm",
		"/pg\n/usr/sbin/php-fpm8.2\n\nnginx\n":                "davical",
		"/pg\n/usr/sbin/php-fpm8.2\n/usr/share/davical\n\n":   "nginx",
	} {
		target := workloadtest.Local(t)
		target.Subject = lacking{target.Subject, said}
		target.Peer, target.PeerAgent, target.PeerDir, target.Addr = local.Conn{}, "agent", t.TempDir(),
			netip.MustParseAddr("127.0.0.1")
		err := w.Prepare(t.Context(), target, p)
		if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(fault.Fix(err), "apt-get install") {
			t.Errorf("%q: %v (%s)", said, err, fault.Fix(err))
		}
	}
	target := workloadtest.Local(t)
	target.Peer, target.PeerAgent, target.PeerDir, target.Addr = local.Conn{}, "agent", t.TempDir(),
		netip.MustParseAddr("127.0.0.1")
	for _, change := range []param.Values{{"delay": "1s"}, {"generator": "siege", "pages": "login", "keepalive": "true"}} {
		q := param.Defaults(w.Doc().Params)
		for name, v := range change {
			q[name] = v
		}
		if err := w.Prepare(t.Context(), target, q); !fault.Is(err, fault.Invalid) {
			t.Errorf("%v: %v", change, err)
		}
	}
}

// The seed is the same wherever it is made, and pages are told from others.
func TestSeedAndItsPages(t *testing.T) {
	if sum := digestOf("%s", seedSQL(3, 4)); sum != "d85218a96141f083f49a57a2831bce2b" {
		t.Errorf("the seed is another (%s): results of earlier runs are no longer comparable", sum)
	}
	all := publicPages(3, 2)
	if len(all) != 7 {
		t.Fatalf("%d pages", len(all))
	}
	calendar := eventText(1, 1) + eventText(1, 2)
	for _, c := range []struct {
		page int
		body string
		good bool
	}{
		{1, calendar, true}, {1, eventText(1, 1), false}, {1, eventText(1, 1) + eventText(1, 1), false},
		{1, calendar + eventText(2, 1), false}, {1, "", false},
		{2, eventText(1, 1), true}, {2, eventText(1, 2), false}, {2, eventText(1, 1) + " ", false},
		{0, "", false}, {0, "<html>DAViCal: Database Error</html>", false},
	} {
		if why := all[c.page].check([]byte(c.body)); (why == "") != c.good {
			t.Errorf("%s with %.30q…: %q", all[c.page].path, c.body, why)
		}
	}
	users := slices.IndexFunc(all, func(p page) bool { return p.path == "/public.php/user3/public/1.ics" })
	if users < 0 || all[users].check([]byte(eventText(3, 1))) != "" {
		t.Errorf("the third user's event is not asked for: %d", users)
	}
}

// result is the agent's word on a siege that printed text.
func result(text string) []byte {
	return written(wire.ExecResult{Stdout: []byte(text)})
}

func written(res wire.ExecResult) []byte {
	res.Schema, res.Argv, res.ElapsedNS = wire.ExecSchema, []string{"siege", "--file=urls"}, 1e9
	b, err := json.Marshal(res)
	if err != nil {
		panic(err)
	}
	return b
}

const sieged = `{"transactions":100,"elapsed_time":1.00,"response_time":0.19,"longest_transaction":0.42,` +
	`"successful_transactions":90,"failed_transactions":5}`

func sieging() param.Values {
	p := param.Defaults(New().Doc().Params)
	p["generator"], p["pages"], p["time"] = "siege", "all", "1s"
	return p
}

// Error pages and failures are none of the throughput, and reach the gate.
func TestSiegeIsRead(t *testing.T) {
	w, raw := cms.Workload{}, workload.Raw{workload.ExecBlob: result(sieged)}
	values, err := w.Parse(raw, sieging())
	if err != nil || values[0].Metric != "throughput" || values[0].Value != 90 {
		t.Errorf("%v, %v", values, err)
	}
	said, ok := w.Diagnose(raw, sieging())
	if !ok || said.Errors["status"] != 10 || said.Errors["failed"] != 5 || said.Generator == nil {
		t.Errorf("diagnostics %+v, %v", said, ok)
	}
	for _, v := range values {
		if m, ok := w.Doc().Metric(v.Metric); !ok || m.Unit != v.Unit {
			t.Errorf("%s in %s is not declared", v.Metric, v.Unit)
		}
	}
	if _, err := w.Parse(workload.Raw{}, sieging()); err == nil {
		t.Error("nothing was read as something")
	}
	for res, want := range map[*wire.ExecResult]bool{{Code: 137, Signal: "killed"}: true, {Code: 1}: false} {
		if _, err := w.Parse(workload.Raw{workload.ExecBlob: written(*res)}, sieging()); hung(err) != want {
			t.Errorf("%+v: hung is %v: %v", *res, !want, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(result(sieged), true)
	f.Add(result(""), true)
	f.Add([]byte(`{"schema":"bakeoff/exec/v1"}`), true)
	f.Add([]byte(`{}`), false)
	f.Fuzz(func(t *testing.T, b []byte, siege bool) {
		p, blob := param.Defaults(New().Doc().Params), workload.Work
		if siege {
			p, blob = sieging(), workload.ExecBlob
		}
		raw := workload.Raw{blob: b}
		values, err := cms.Workload{}.Parse(raw, p)
		if err == nil && len(values) == 0 {
			t.Error("no values and no error")
		}
		cms.Workload{}.Diagnose(raw, p)
	})
}
