package advice

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/bootmodel"
	"bakeoff/measure/boot"
	"bakeoff/measure/boot/boottest"
	"bakeoff/measure/boot/linux"
	"bakeoff/measure/boot/tslog"
)

func read(t *testing.T, s boot.Source, text string) bootmodel.Recording {
	t.Helper()
	r, err := s.Read("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// find is the advice of a name.
func find(t *testing.T, all []bootmodel.Advice, name string) bootmodel.Advice {
	t.Helper()
	i := slices.IndexFunc(all, func(a bootmodel.Advice) bool { return a.Name == name })
	if i < 0 {
		t.Fatalf("no advice %s in %+v", name, all)
	}
	return all[i]
}

// A real boot of Debian's cloud kernel under TCG: the self-tests are what it can save.
func TestAdviceOnDebiansCloudKernel(t *testing.T) {
	a := boottest.Load(t, "../linux/testdata/debian.txtar.gz")
	r := read(t, linux.New(), string(a.Files[0].Data))
	all := Find(r)
	tests := find(t, all, "self-test")
	if tests.Argument != "cryptomgr.notests" || len(tests.Spans) != 2 ||
		r.Spans[tests.Spans[0]].Name != "crypto_algapi_init" {
		t.Errorf("%+v", tests)
	}
	cost := 0.0
	for _, i := range tests.Spans {
		from, to := r.Times(i)
		cost += to - from
	}
	if tests.CostNS != cost || cost < 2e9 {
		t.Errorf("the tests cost %v, their spans %v", tests.CostNS, cost)
	}
	if ram := find(t, all, "initramfs"); !strings.Contains(ram.Text, "unpack initramfs 4920K") {
		t.Errorf("%+v", ram)
	}
	for i, x := range all {
		if i > 0 && x.CostNS > all[i-1].CostNS || len(x.Spans) == 0 || x.Knob == "" {
			t.Errorf("advice %+v", x)
		}
	}
}

// The kernel with cryptomgr.notests gets no advice about what is off. One of the initcalls
// still takes its time.
func TestNoAdviceOnWhatIsOff(t *testing.T) {
	a := boottest.Load(t, "../linux/testdata/debian-systemd.txtar.gz")
	r := read(t, linux.New(), string(a.Files[0].Data))
	for _, x := range Find(r) {
		if x.Name == "console" || x.Name == "absent-hardware" || x.Name == "decompression" || x.Name == "calibration" {
			t.Errorf("advice without evidence: %+v", x)
		}
	}
}

func TestEveryKindOfEvidence(t *testing.T) {
	const log = `[    0.000000] Linux version 6.1.0
[    0.000000] Command line: initcall_debug loglevel=8
[    0.100000] Calibrating delay loop... 4589.33 BogoMIPS (lpj=9178660)
[    0.200000] calling  floppy_init+0x0/0x10 @ 1
[    0.300000] probe of fd0 returned 19 after 50001 usecs
[    0.400000] initcall floppy_init+0x0/0x10 returned -19 after 150001 usecs
[    0.410000] calling  crypto_algapi_init+0x0/0x10 @ 1
[    0.500000] initcall crypto_algapi_init+0x0/0x10 returned 0 after 90000 usecs
[    0.510000] Waiting 1 sec before mounting root device...
[    1.510000] Run /init as init process
`
	var got []string
	for _, a := range Find(read(t, linux.New(), log)) {
		got = append(got, fmt.Sprintf("%s %.0f ms %s", a.Name, a.CostNS/1e6, a.Argument))
	}
	want := []string{"delay 1000 ms ", "absent-hardware 200 ms initcall_blacklist=floppy_init", "calibration 100 ms ",
		"self-test 90 ms cryptomgr.notests", "console 60 ms quiet"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What the command line of the recording has is not advised.
func TestNothingIsAdvisedThatIsSet(t *testing.T) {
	const log = `[    0.000000] Linux version 6.1.0
[    0.000000] Command line: initcall_debug WORDS
[    0.100000] Calibrating delay loop... 4589.33 BogoMIPS (lpj=9178660)
[    0.200000] calling  floppy_init+0x0/0x10 @ 1
[    0.400000] initcall floppy_init+0x0/0x10 returned -19 after 150001 usecs
[    0.410000] calling  crypto_algapi_init+0x0/0x10 @ 1
[    0.500000] initcall crypto_algapi_init+0x0/0x10 returned 0 after 90000 usecs
[    0.510000] Run /init as init process
`
	const absent, tests = "absent-hardware initcall_blacklist=floppy_init; ", "self-test cryptomgr.notests; "
	for words, want := range map[string]string{
		"loglevel=8":                   absent + "calibration ; " + tests + "console quiet",
		"loglevel=8 cryptomgr.notests": absent + "calibration ; console quiet",
		"loglevel=8 cryptomgr.notests=1 initcall_blacklist=a,floppy_init":   "calibration ; console quiet",
		"quiet loglevel=8 cryptomgr.notests=0":                              absent + "calibration ; " + tests + "console ",
		"quiet cryptomgr.notests loglevel=8 cryptomgr.notests=0":            absent + "calibration ; " + tests + "console ",
		"loglevel=8 initcall-blacklist=floppy_init cryptomgr.notests quiet": "calibration ",
	} {
		var got []string
		for _, a := range Find(read(t, linux.New(), strings.Replace(log, "WORDS", words, 1))) {
			got = append(got, a.Name+" "+a.Argument)
			if a.Name == "console" && strings.Contains(words, "quiet") && !strings.Contains(a.Knob, "remove loglevel") {
				t.Errorf("%s: %s", words, a.Knob)
			}
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s: %s, want %s", words, text, want)
		}
	}
	r := read(t, linux.New(), strings.Replace(log, "WORDS", "lpj=9178660 tsc-early-khz=2400000", 1))
	if c := find(t, Find(r), "calibration"); strings.Contains(c.Knob, "lpj") || strings.Contains(c.Knob, "khz") {
		t.Error(c.Knob)
	}
}

// NetBSD's calibration and delays, as the article found them.
func TestAdviceOnNetBSD(t *testing.T) {
	const log = `0x0 1000 ENTER main
0x0 1100 ENTER cpu_get_tsc_freq
0x0 1110 ENTER delay_func
0x0 1190 EXIT delay_func
0x0 1200 EXIT cpu_get_tsc_freq
0x0 1300 ENTER config_attach_internal com0
0x0 1310 ENTER DELAY 10000
0x0 1360 EXIT DELAY
0x0 1370 EXIT config_attach_internal
0x0 1500 EXIT start_init
`
	r := read(t, tslog.New(), log)
	all := Find(r)
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	// The delay within the calibration is evidence for both: each bounds what its own knob saves.
	if d := find(t, all, "delay"); d.CostNS != 130 || len(d.Spans) != 2 || r.Path(d.Spans[0])[2] != "delay_func" {
		t.Errorf("%+v", d)
	}
	if c := find(t, all, "calibration"); c.CostNS != 100 || !strings.Contains(c.Text, "20.0 % of the boot") {
		t.Errorf("%+v", c)
	}
}

func TestNothingToSay(t *testing.T) {
	if a := Find(read(t, tslog.New(), "0x0 1 ENTER main\n0x0 9 EXIT start_init\n")); a != nil {
		t.Errorf("%+v", a)
	}
	if a := Find(bootmodel.Recording{}); a != nil {
		t.Errorf("%+v", a)
	}
}
