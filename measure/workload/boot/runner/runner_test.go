package runner

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/boot"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

func TestMain(m *testing.M) { workloadtest.Main(m) }

// mute is an environment in which nothing can be started.
type mute struct {
	driver.Instance
	closed int
}

func (*mute) Exec(context.Context, conn.Cmd) (conn.Exit, error) {
	return conn.Exit{}, fault.New(fault.Unsupported, "it has no agent")
}

func (m *mute) Close(ctx context.Context) error {
	m.closed++
	time.Sleep(2 * time.Millisecond)
	return m.Instance.Close(ctx)
}

func target(t *testing.T) (execution.Target, *mute) {
	tg := workloadtest.Local(t)
	m := &mute{Instance: tg.Subject}
	tg.Fresh = func(context.Context) (driver.Instance, []execution.Mark, error) {
		asked := time.Now()
		time.Sleep(3 * time.Millisecond)
		return m, []execution.Mark{{Name: "asked", At: asked}, {Name: "up", At: time.Now()},
			{Name: "userland", Count: 648_366_412}, {Name: "ready", Count: 700_000_001}}, nil
	}
	return tg, m
}

func TestSuite(t *testing.T) {
	workloadtest.Run(t, New(), workloadtest.Options{Partial: true, Target: func(t *testing.T) execution.Target {
		tg, _ := target(t)
		return tg
	}})
}

func TestNothingIsStartedInside(t *testing.T) {
	tg, m := target(t)
	raw, err := New().Run(t.Context(), tg, param.Values{boot.ParamRecord: "true"})
	if err != nil {
		t.Fatal(err)
	}
	values, err := New().Parse(raw, nil)
	if err != nil || m.closed != 1 || len(values) != 3 {
		t.Fatalf("%v, %v; closed %d times", values, err, m.closed)
	}
	if values[0].Metric != "ready" || values[0].Value < 0.003 || values[1].Metric != "remove" || values[1].Value < 0.002 {
		t.Errorf("got %v", values)
	}
	if got := values[2]; got.Metric != boot.Instructions || got.Value != 700_000_001 {
		t.Errorf("the end of the boot is %v", got)
	}
	tg.Fresh = func(context.Context) (driver.Instance, []execution.Mark, error) {
		return nil, nil, fault.New(fault.Subject, "panic")
	}
	if _, err := New().Run(t.Context(), tg, nil); !fault.Is(err, fault.Subject) {
		t.Errorf("error %v, want the subject's", err)
	}
	if err := New().Prepare(t.Context(), execution.Target{}, nil); !fault.Is(err, fault.Unsupported) {
		t.Errorf("a target without environments: %v", err)
	}
}

// watched is an environment whose driver saw how it came up.
type watched struct {
	*mute
	seen driver.Moments
	info driver.Info
}

func (w watched) Moments(context.Context) (driver.Moments, error) { return w.seen, nil }
func (w watched) Info() driver.Info                               { return w.info }

// inside is an instance that wraps another, as the variables of a contender do.
type inside struct{ driver.Instance }

func (i inside) Unwrap() driver.Instance { return i.Instance }

// What the driver saw and what QEMU wrote become metrics. The times are exact.
func TestMoments(t *testing.T) {
	tg, m := target(t)
	asked := time.Now()
	at := func(ms time.Duration) time.Time { return asked.Add(ms * time.Millisecond) }
	there := time.Unix(1795508914, 0) // the clock of the host when the environment was requested
	w := watched{mute: m, info: driver.Info{OwnKernel: true}, seen: driver.Moments{
		List: []driver.Moment{{Name: bootmodel.MarkHypervisor, At: at(1)},
			{Name: bootmodel.MarkUserland, At: at(250), Uncertainty: 2 * time.Millisecond},
			{Name: bootmodel.MarkSerial, At: at(90), Uncertainty: -1},
			{Name: bootmodel.MarkService, At: at(400)}},
		Absent: map[string]string{bootmodel.MarkClock: "no"},
		Log: &driver.HypervisorLog{Stamp: there, At: at(0), Uncertainty: time.Microsecond, Text: []byte(
			"1@1795508914.010000:fw_cfg_add_bytes key 0x0000 'signature', 4 bytes\n" +
				"2@1795508914.020000:fw_cfg_select 0x55 key 0x0000 'signature', ret: 1\n" +
				"2@1795508914.050000:fw_cfg_select 0x55 key 0x0015 'cmdline_data', ret: 1\n" +
				"2@1795508914.050500:pic_ioport_write master 0 addr 0x1 val 0xff\n")}}}
	tg.Fresh = func(context.Context) (driver.Instance, []execution.Mark, error) {
		return inside{w}, []execution.Mark{{Name: "asked", At: asked}, {Name: "up", At: at(300)}}, nil
	}
	time.Sleep(time.Until(at(300))) // the environment is removed after it is ready
	raw, err := New().Run(t.Context(), tg, nil)
	if err != nil {
		t.Fatal(err)
	}
	values, err := New().Parse(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"ready": .3, "firmware": .035, "kernel": .2, "userland": .05,
		"service": .15, "boot-ready": .4}
	for _, v := range values {
		if w, ok := want[v.Metric]; ok && math.Abs(v.Value-w) > 1e-6 {
			t.Errorf("%s is %v, want %v", v.Metric, v.Value, w)
		}
		delete(want, v.Metric)
	}
	if len(want) > 0 {
		t.Errorf("no value of %v; absent: %v", want, boot.Workload{}.Absent(raw, nil))
	}
	r, err := boot.Recording(raw)
	if err != nil {
		t.Fatal(err)
	}
	var marks []string
	for _, k := range r.Marks {
		marks = append(marks, k.Name)
	}
	if got := strings.Join(marks, ", "); got != "environment requested, hypervisor start, vCPU start, firmware done, "+
		"kernel entry, first serial byte, first userland instruction, environment ready, service ready" {
		t.Errorf("marks: %s", got)
	}
}

// A metric that an environment cannot give has a reason and no value.
func TestAbsent(t *testing.T) {
	tg, _ := target(t)
	raw, err := New().Run(t.Context(), tg, nil)
	if err != nil {
		t.Fatal(err)
	}
	old := workload.Raw{boot.Blob: []byte(`{"schema":"bakeoff/boot/v1","ready_ns":1,"left_ns":2,"gone_ns":3}`)}
	for _, tt := range []struct {
		raw  workload.Raw
		says map[string]string
	}{
		{raw, map[string]string{"firmware": "the environment uses the kernel of its host",
			"kernel": "the environment uses the kernel of its host", "userland": "the driver does not see when",
			"boot-ready": "the cell does not say when the service is ready"}},
		{old, map[string]string{"firmware": "the program that made this run did not look for it"}},
	} {
		values, err := New().Parse(tt.raw, nil)
		if err != nil {
			t.Errorf("%v, %v", values, err)
		}
		absent := boot.Workload{}.Absent(tt.raw, nil)
		if len(absent)+len(values) != len(boot.Workload{}.Doc().Metrics) {
			t.Errorf("%v; absent: %v", values, absent)
		}
		for metric, says := range tt.says {
			if !strings.Contains(absent[metric], says) {
				t.Errorf("%s: %q", metric, absent[metric])
			}
		}
	}
}

func TestCheck(t *testing.T) {
	check := New().(execution.Checker).Check
	for says, p := range map[string]param.Values{
		"the cell does not say when the service": {boot.ParamArgv: "nginx"},
		"answer: write tcp:PORT":                 {boot.ParamAnswer: "80"},
	} {
		if err := check(p); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v", p, err)
		}
	}
	if err := check(param.Values{boot.ParamAnswer: "ssh:22"}); err != nil {
		t.Error(err)
	}
}

// served is an environment with an address in which a service can be started.
type served struct {
	driver.Instance
	info driver.Info
	run  func(ctx context.Context, argv []string) (conn.Exit, error)
}

func (s served) Info() driver.Info { return s.info }
func (s served) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	return s.run(ctx, cmd.Argv)
}

// The service answers some time after the environment is ready, and boot-ready is when it
// does. One that ends before that is a failure of the subject.
func TestService(t *testing.T) {
	tg, _ := target(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	go func() {
		for c, err := listener.Accept(); err == nil; c, err = listener.Accept() {
			time.Sleep(5 * time.Millisecond)
			fmt.Fprint(c, "SSH-2.0-x\r\n")
			c.Close()
		}
	}()
	in := served{Instance: tg.Subject, info: driver.Info{Addr: netip.MustParseAddr("127.0.0.1")}}
	tg.Peer = local.Conn{}
	tg.Fresh = func(context.Context) (driver.Instance, []execution.Mark, error) { return in, nil, nil }
	p := param.Values{boot.ParamAnswer: fmt.Sprintf("ssh:%d", port), boot.ParamArgv: "sshd\n-D"}
	in.run = func(ctx context.Context, argv []string) (conn.Exit, error) {
		if len(argv) != 2 {
			t.Errorf("started %q", argv)
		}
		<-ctx.Done()
		return conn.Exit{}, ctx.Err()
	}
	raw, err := New().Run(t.Context(), tg, p)
	if err != nil {
		t.Fatal(err)
	}
	values, err := New().Parse(raw, p)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(values, func(v sample.Value) bool { return v.Metric == boot.BootReady && v.Value > .002 }) {
		t.Errorf("got %v", values)
	}
	listener.Close()
	in.run = func(context.Context, []string) (conn.Exit, error) { return conn.Exit{Code: 7}, nil }
	if _, err := New().Run(t.Context(), tg, p); !fault.Is(err, fault.Subject) ||
		!strings.Contains(err.Error(), "the service ended before it answered: exit code 7") {
		t.Errorf("got %v", err)
	}
	in.info.Addr = netip.Addr{}
	if _, err := New().Run(t.Context(), tg, p); !fault.Is(err, fault.Unsupported) {
		t.Errorf("without an address: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"schema":"bakeoff/boot/v1","ready_ns":1,"left_ns":2,"gone_ns":3}`))
	f.Add([]byte(`{"schema":"bakeoff/boot/v1","ready_ns":3,"left_ns":2,"gone_ns":1}`))
	f.Add([]byte(`{"schema":"bakeoff/boot/v1","ready_ns":1,"left_ns":2,"gone_ns":3,"counts":[{"name":"a","at":5}]}`))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"schema":"bakeoff/boot/v2","ready_ns":9,"left_ns":9,"gone_ns":10,"moments":[{"name":"kernel entry",` +
		`"at_ns":1,"uncertainty_ns":null},{"name":"first userland instruction","at_ns":5,"uncertainty_ns":1}],` +
		`"log":{"unix_ns":1,"uncertainty_ns":1}}`))
	log := []byte("1@1.000001:fw_cfg_add_file\n2@1.000002:fw_cfg_select 0 key 0x0015\n")
	f.Fuzz(func(t *testing.T, b []byte) {
		raw := workload.Raw{boot.Blob: b, boot.Log: log, boot.System: b}
		if r, err := boot.Recording(raw); err == nil {
			if err := bootmodel.Check("fuzz", r); err != nil {
				t.Error(err)
			}
		}
		values, err := New().Parse(raw, nil)
		for _, v := range values {
			if err != nil || !(v.Value >= 0) {
				t.Errorf("%q gave %v, %v", b, values, err)
			}
		}
	})
}
