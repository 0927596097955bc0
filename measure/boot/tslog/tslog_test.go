package tslog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/bootmodel"
	"bakeoff/base/labeled"
	"bakeoff/measure/boot"
	"bakeoff/measure/boot/boottest"
)

func TestTslog(t *testing.T) { boottest.Run(t, New()) }

// The log says how long the boot was in each stack: on the thread of the main function,
// below a wait on the thread that it waited for, and after the main function on the
// thread of start_init. All times add up to the boot.
func TestRandomLogs(t *testing.T) {
	jumps, charged, handed := 0, 0, 0
	for seed := range uint64(1000) {
		main := []string{mainFreeBSD, mainNetBSD}[seed%2]
		want := generate(seed, main)
		r, err := New().Read("log", []byte(want.text()))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, want.text())
		}
		boottest.Check(t, New(), "log", r, nil)
		got, sum := map[string]int64{}, int64(0)
		self := r.Self()
		for i, s := range r.Spans {
			if inBoot(r, i) {
				got[strings.Join(fromRoot(r, i), ";")] += self[i]
				sum += self[i]
			}
			if s.Charged {
				charged++
			}
		}
		maps.DeleteFunc(got, func(_ string, v int64) bool { return v == 0 })
		if truth := want.boot(); !maps.Equal(got, truth) {
			t.Fatalf("seed %d: the stacks are\n%v\nand should be\n%v\n%s", seed, got, truth, want.text())
		}
		if sum != want.end-want.start {
			t.Fatalf("seed %d: the self times are %d, the boot took %d", seed, sum, want.end-want.start)
		}
		if got := exact(r); !slices.Equal(got, slices.Sorted(slices.Values(want.spans))) {
			t.Fatalf("seed %d: the spans are\n%s\nand should be\n%s", seed, strings.Join(got, "\n"),
				strings.Join(slices.Sorted(slices.Values(want.spans)), "\n"))
		}
		jumps += want.jumps
		if want.done < want.end {
			handed++
		}
		lostTail(t, seed, want)
	}
	t.Logf("%d jumps of the counter, %d charged spans, %d boots that ended in another thread", jumps, charged, handed)
	if jumps < 1000 || charged < 1000 || handed < 100 {
		t.Error("the random logs have too few of what they should test")
	}
}

// inBoot reports whether span i is the root or below it.
func inBoot(r bootmodel.Recording, i int) bool {
	for ; i >= 0; i = r.Spans[i].Parent {
		if i == *r.Root {
			return true
		}
	}
	return false
}

func fromRoot(r bootmodel.Recording, i int) (path []string) {
	for ; i != *r.Root; i = r.Spans[i].Parent {
		path = append([]string{r.Spans[i].Label()}, path...)
	}
	return append([]string{r.Spans[i].Label()}, path...)
}

// exact lists the spans that repeat no others.
func exact(r bootmodel.Recording) (out []string) {
	for i, s := range r.Spans {
		if !s.Charged {
			out = append(out, fmt.Sprintf("%s %d %d %s", r.Tracks[s.Track].Name, s.Start, s.End, strings.Join(r.Path(i),
				";")))
		}
	}
	slices.Sort(out)
	return out
}

// lostTail cuts the log before the last EXIT of start_init.
func lostTail(t *testing.T, seed uint64, want *truth) {
	end := len(want.lines) - 2
	keep := 1 + int(seed)%end
	for _, line := range want.lines[:keep] {
		if strings.Contains(line, "EXIT "+last) {
			return
		}
	}
	_, err := New().Read("log", []byte(strings.Join(want.lines[:keep], "\n")+"\n"))
	boottest.Check(t, New(), "log", bootmodel.Recording{}, err)
	if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("log:%d: the log ends here", keep)) {
		t.Fatalf("seed %d, %d lines: %v", seed, keep, err)
	}
}

func TestMistakes(t *testing.T) {
	const begin = "0x0 10 ENTER main\n"
	boottest.Mistakes(t, New(), map[string]string{
		"x:1: the file is empty":                " \n",
		"x:1: this is neither an entry":         "hello\n0x0 12 LEAVE f\n",
		"x:1: this is neither":                  "0xg 10 ENTER main\n",
		"x:2: the log ends here":                begin + "0x0 12 EXIT main\n",
		"x:2: start_init exits, but no line":    "0x0 10 ENTER f\n0x0 12 EXIT start_init\n",
		"x:1: the line is too long":             "0x0 10 ENTER " + strings.Repeat("f", boot.MaxLine) + "\n",
		"x:10002: more than 10000 functions of": begin + strings.Repeat("0x1 10 ENTER f\n", maxDepth+1),
		"x:1: the file has no entry":            "2400000000\n",
		"x:1: the file has no entry; record a":  "\x00\x18\x0d\x8f\x00\x00\x00\x00",
		"x:1: the file has no entry; record":    "0 0 0 0 \"\" \"\"\n",
	})
}

func TestProcessesAreTracks(t *testing.T) {
	r, err := New().Read("user", []byte(`0 0 0 0 "" ""
1 0 100 0 "/sbin/init" ""
31 123 260 290 "" ""
123 1 200 900 "/rescue/sh" "/etc/rc"
124 123 300 310 "" ""
125 123 320 325 "" "/bin/echo"
126 1 400 500 "" ""
127 128 1 2 "a" ""
128 127 1 2 "b" ""
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, k := range r.Tracks {
		s := r.Spans[i]
		got = append(got, fmt.Sprintf("%s=%s<%d %d-%d %v", k.ID, k.Name, k.Parent, s.Start, s.End, s.Open))
	}
	want := []string{"1=/sbin/init<-1 100-900 true", "31=fork of /rescue/sh<2 260-290 false", "123=/rescue/sh<0 " +
		"200-900 false",
		"124=fork of /rescue/sh<2 300-310 false", "125=/bin/echo<2 320-325 false", "126=fork of /sbin/init<0 400-500 false",
		"127=a<-1 1-2 false", "128=b<6 1-2 false"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	boottest.Check(t, New(), "user", r, nil)
}

func TestBothSysctlsAndTheFrequencyMayBeInOneFile(t *testing.T) {
	r, err := New().Read("x", []byte("0x0 5 ENTER main\r\n0x0 7 EVENT a b\r\n0x0 9 EXIT start_init\r\n1 0 8 0 "+
		"\"/sbin/init\" \"\"\r\n"+
		"machdep.tsc_freq: 2400000000\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Clocks[0].Hz != 2.4e9 || len(r.Tracks) != 2 || *r.Root != 0 || r.System != "netbsd" {
		t.Errorf("%+v", r)
	}
	names := []string{}
	for _, m := range r.Marks {
		names = append(names, fmt.Sprint(m.Name, " ", m.At))
	}
	want := []string{"first kernel message 5", "main function 5", "a b 7", "first userland instruction 9"}
	if !slices.Equal(names, want) {
		t.Errorf("marks %q", names)
	}
}

// People save the sysctls in several ways. All of them are the same boot, and lines that are
// not of the sysctls are counted.
func TestTheWaysToSaveATslog(t *testing.T) {
	const entries = "0x1 1000001 ENTER mi_startup\n0x1 2002001 ENTER DELAY\n0x1 242002001 EXIT DELAY\n" +
		"0x1 342003001 EXIT start_init\n"
	user := "1 0 8 0 \"/sbin/init\" \"\"\n"
	for file, want := range map[string]struct {
		hz    float64
		notes int
	}{
		"\n" + entries + "2400000000\n": {2.4e9, 0},
		"\n" + entries + "\x00":         {0, 0},
		"\n" + entries + "\x00" + user + "\x00\x00\x18\x0d\x8f\x00\x00\x00\x00": {2.4e9, 0},
		entries + "\x0024000000\n":                                                                 {24e6, 0},
		"debug.tslog: \n" + entries + "machdep.tsc_freq: 2400000000\n":                             {2.4e9, 0},
		"debug.tslog = " + entries + "machdep.tsc_freq = 2400000000\n":                             {2.4e9, 0},
		entries + "kern.timecounter.tc.ARM MPCore Timecounter.frequency: 24000000\n":               {24e6, 0},
		entries + "1 0 x 0 \"/sbin/init\" \"\"\n":                                                  {0, 1},
		"login: root\nLOG BEGIN\n" + entries + "LOG END\n# ":                                       {0, 1},
		strings.Replace(entries, "0x1 2", "lo0: link state changed to UP\n0x1 2", 1) + "0x1 34200": {0, 1},
		strings.ReplaceAll(entries, "\n", "\r\n") + "2400000000\r\n":                               {2.4e9, 0},
		"\n" + entries + "\x00" + user + "\x00\x0a\x18\x0d\x8f\x00\x00\x00\x00":                    {2400000010, 0},
		"\x00\x18\x0d\x8f\x00\x00\x00\x00\n" + entries + "\x00":                                    {2.4e9, 0},
		"\n" + entries + "\x00\x00\x18\x0d\x8f\x00\x00\x00\x00" + user + "\x00":                    {2.4e9, 0},
		strings.ReplaceAll(entries+"2400000000\nbin\n# ls\n", "\n", "\r\n"):                        {2.4e9, 1},
		entries + "2400000000\na\tb\n":                                                             {2.4e9, 1},
		entries + "2400000000\n\u00e9\n":                                                           {2.4e9, 1},
		entries + "\x00# a\n":                                                                      {0, 1},
		entries + "machdep.tsc_freq: 2400000000\nkern.timecounter.tc.HPET.frequency: 14318180\n":   {2.4e9, 1},
		entries + "kern.timecounter.tc.TSC-low.frequency: 1200000000\n":                            {0, 1},
		entries + "2400000000\n274877906944\n":                                                     {2.4e9, 1},
	} {
		if !New().Recognizes([]byte(file)) {
			t.Errorf("%q is not recognized", file)
		}
		for _, data := range [][]byte{[]byte(file), labeled.Clean([]byte(file))} { // boot show cleans files
			r, err := New().Read("x", data)
			boottest.Check(t, New(), "x", r, err)
			lost := slices.DeleteFunc(r.Notes, func(n bootmodel.Note) bool { return !n.Lost })
			if err != nil || r.Clocks[0].Hz != want.hz || len(lost) != want.notes || r.Spans[1].Label() != "DELAY" ||
				r.Spans[1].End-r.Spans[1].Start != 240_000_000 {
				t.Errorf("%q: %v, %+v", data, err, r)
			}
		}
	}
}

func FuzzTslog(f *testing.F) {
	const entries = "0x1 10 ENTER mi_startup\n0x1 20 EXIT start_init\n"
	boottest.Fuzz(f, New(), generate(1, mainNetBSD).text(), generate(2, mainFreeBSD).text(),
		entries+"\x001 0 8 0 \"/sbin/init\" \"\"\n\x00\x0a\x18\x0d\x8f\x00\x00\x00\x00",
		"\x00\x18\x0d\x8f\x00\x00\x00\x00\n"+entries+"\x00\x00", entries+"2400000000\r\nbin\r\na\tb\n",
		entries+"machdep.tsc_freq: 2400000000\nkern.timecounter.tc.HPET.frequency: 14318180\n1764486000\n")
}

// NetBSD 10.99.12 with two emulated CPUs on a busy host measured the first of these. Of two
// frequencies the surer one counts, and a note shows the other.
func TestAnImprobableFrequencyIsLeftOut(t *testing.T) {
	const log = "0x0 1000 ENTER main\n0x1 2000 ENTER start_init\n0x1 3000 EXIT start_init\n0x0 4000 EXIT main\n"
	for _, tt := range []struct {
		line, note string
		hz         float64
	}{
		{"104476789100\n", "a frequency of its counter of 104 GHz. No counter is that fast", 0},
		{"machdep.tsc_freq = 104476789100\n", "104 GHz", 0},
		{"2600000000\n", "", 2.6e9},
		{"104476789100\n2600000000\n", "104 GHz", 2.6e9},
		{"2400000000\n1764486000\n", "2.40 GHz in line 5 and 1.76 GHz in line 6", 2.4e9},
		{"1764486000\nmachdep.tsc_freq: 2400000000\n", "2.40 GHz in line 6 and 1.76 GHz in line 5", 2.4e9},
		{"machdep.tsc_freq: 2400000000\n2400000000\n", "", 2.4e9},
	} {
		r, err := New().Read("tslog.txt", []byte(log+tt.line))
		if err != nil || r.Clocks[0].Hz != tt.hz {
			t.Fatalf("%q: %v, %v", tt.line, r.Clocks, err)
		}
		notes := ""
		for _, n := range r.Notes {
			if n.Lost {
				t.Errorf("%q: something is missing: %s", tt.line, n.Text)
			}
			notes += n.Text
		}
		if !strings.Contains(notes, tt.note) || tt.note == "" && strings.Contains(notes, "frequency") {
			t.Errorf("%q: %q", tt.line, notes)
		}
	}
}
