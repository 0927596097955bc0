package printk

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
)

// prefixes are ways in which programs show the same log: what they write before each line, and
// between the time stamp and the message.
var prefixes = map[string]struct{ before, after string }{
	"plain":                              {"", " "},
	"priority":                           {"<6>", " "},
	"dmesg --decode":                     {"kern  :info  : ", " "},
	"caller on the console":              {"", "[    T1] "},
	"caller of dmesg":                    {"", " [    T1] "},
	"decoded with a caller":              {"kern  :info  : ", " [     T1] "},
	"caller in an interrupt":             {"", "[    C0] "},
	"caller with a name":                 {"", "[   T1/idle] "},
	"caller, thread and CPU":             {"", "[     T1:swapper/0:C1] "},
	"syslog":                             {"Nov 27 06:50:23 host kernel: ", " "},
	"RFC 5424":                           {"2026-11-27T06:50:23.123456+00:00 host kernel: ", " "},
	"journal":                            {"", " host kernel: "},
	"ts":                                 {"Nov 27 06:50:23 ", " "},
	"ts -s %.s":                          {"12.345678 ", " "},
	"minicom":                            {"[2026-11-27 06:50:23] ", " "},
	"grabserial":                         {"[12.345678 0.000123] ", " "},
	"a console with times of its own":    {"[   12.345678] ", " "},
	"both":                               {"[   12.345678] ", "[    T1] "},
	"colors":                             {"\x1b[32m", "\x1b[0m \x1b[33m"},
	"firmware without an end of line":    {"Booting from ROM...", " "},
	"a vendor's kernel":                  {"", " <6>.(0)[1:swapper/0]"},
	"a CPU in brackets":                  {"", " [cpu 0] "},
	"a CPU after two blanks":             {"", "  [0:      swapper/0:    1] "},
	"a CPU and a thread":                 {"", " c0      1 "},
	"journal without a host":             {"", " kernel: "},
	"zero bytes":                         {"\x00\x00", " "},
	"the container's name before a line": {"console | ", " "},
}

var messages = []struct{ time, text string }{
	{"    0.000000", "Linux version 6.12.0 (b@h) #1 SMP"},
	{"    0.000000", "Command line: root=/dev/vda initcall_debug"},
	{"    0.100000", "calling  acpi_init+0x0/0x120 @ 1"},
	{"    0.150000", "initcall acpi_init+0x0/0x120 returned 0 after 49990 usecs"},
	{"    0.600000", "Run /init as init process"},
}

func TestEveryPrefixIsRead(t *testing.T) {
	for name, p := range prefixes {
		for _, end := range []string{"\n", "\r\n", "\r\r\n", "\n\r"} {
			var file strings.Builder
			for _, m := range messages {
				file.WriteString(p.before + "[" + m.time + "]" + p.after + m.text + end)
			}
			log, err := Parse("x", []byte(file.String()))
			if err != nil || len(log.Lines) != len(messages) || log.Unstamped+log.Skipped.Count+log.Backward > 0 ||
				log.Unknown != "" {
				t.Errorf("%s: %v, %+v", name, err, log)
				continue
			}
			for i, m := range messages {
				if line := log.Lines[i]; line.Text != m.text {
					t.Errorf("%s: line %d is %q, want %q", name, i, line.Text, m.text)
				}
			}
			if caller := log.Lines[0].Caller; strings.Contains(p.after, "T1") != (caller == "T1") {
				t.Errorf("%s: the caller is %q", name, caller)
			}
			if !Stamped([]byte(file.String())) {
				t.Errorf("%s is not recognized", name)
			}
		}
	}
}

// The same messages as records of /dev/kmsg, with a property of a device and a line of a program.
func TestRecordsOfTheKernelAreRead(t *testing.T) {
	log, err := Parse("x", []byte("5,0,0,-;Linux version 6.12.0 (b@h) #1 SMP\n"+
		"6,1,0,-,caller=T0;Command line: root=/dev/vda initcall_debug\n"+
		"7,2,100000,-,caller=T1;calling  acpi_init+0x0/0x120 @ 1\n SUBSYSTEM=acpi\n DEVICE=+acpi:PNP0A03:00\n"+
		"7,3,150000,c,caller=T1;initcall acpi_init+0x0/0x120 returned 0 after 49990 usecs\n"+
		"12,4,200000,-;systemd[1]: written by a program\n"+
		"6,5,600000,-;Run /init as init process\n"))
	if err != nil || len(log.Lines) != len(messages) || log.Programs != 1 || log.Hz != 1e6 ||
		log.Unstamped+log.Skipped.Count > 0 {
		t.Fatalf("%v, %+v", err, log)
	}
	for i, m := range messages {
		if line := log.Lines[i]; line.Text != m.text || line.At != []int64{0, 0, 100000, 150000, 600000}[i] {
			t.Errorf("line %d is %q at %d, want %q", i, line.Text, line.At, m.text)
		}
	}
	if c := log.Lines[2].Caller; c != "T1" {
		t.Errorf("the caller is %q", c)
	}
}

// A note shows unknown text between the time and the message.
func TestAnUnknownPrefixIsReported(t *testing.T) {
	log, err := Parse("x", []byte("[    0.000000] board7> Linux version 6.12.0\n[    0.100000] board7> Run /init\n"))
	if err != nil || log.Unknown != "board7> " || log.UnknownLine != 1 {
		t.Fatalf("%v, %+v", err, log)
	}
	if notes := log.Notes("x"); len(notes) != 1 || !notes[0].Lost || !strings.Contains(notes[0].Text, `"board7>"`) {
		t.Errorf("%+v", notes)
	}
}

// The journal has the lines of programs, too.
func TestLinesOfProgramsInTheJournal(t *testing.T) {
	log, err := Parse("x", []byte("-- Boot 7 --\n[    0.000000] host kernel: Linux version 6\n[    0.500000] host "+
		"systemd[1]: Started a.\n[    0.600000] host kernel: b\n"))
	if err != nil || len(log.Lines) != 2 || log.Programs != 1 || log.Unstamped != 1 || log.Lines[1].Text != "b" {
		t.Errorf("%v, %+v", err, log)
	}
}

// A journal can begin with the line of a program. A message of the kernel that looks like its line makes no journal.
func TestAJournalBeginsWithAProgram(t *testing.T) {
	for file, want := range map[string][]string{
		"[    0.900000] web1 systemd-journald[100]: Journal started\n[    0.000000] web1 kernel: Linux version 6\n" +
			"[    0.300000] web1 kernel: b\n[    0.910000] web1 systemd[1]: Started x\n": {"Linux version 6", "b"},
		"[    0.000000] localhost systemd[1]: a\n[    0.100000] web1 kernel: b\n": {"b"},
		"[    0.000000] systemd[1]: a\n[    0.100000] kernel: b: c\n":             {"b: c"},
		"[    0.000000] Linux version 6\n[    0.100000] Booting kernel: `x' invalid for parameter `y'\n" +
			"[    0.200000] pci a: b\n": {"Linux version 6", "Booting kernel: `x' invalid for parameter `y'", "pci a: b"},
	} {
		log, err := Parse("x", []byte(file))
		var got []string
		for _, l := range log.Lines {
			got = append(got, l.Text)
		}
		if err != nil || !slices.Equal(got, want) || log.Backward > 0 {
			t.Errorf("%s%v, %q, %d", file, err, got, log.Backward)
		}
	}
}

// Lines of firmware and programs on a console have only the time of the console, whose clock is another.
func TestTheTimeOfAConsoleIsNotTheKernels(t *testing.T) {
	log, err := Parse("x", []byte("[0.000012] U-Boot 2023.01\n[5.123456] Starting kernel ...\n"+
		"[7.000001] [    0.000000] Linux version 6.1.0\n[7.100001] [    0.100000] pci 0000:00:01.0: found\n"+
		"[9.500001] [  OK  ] Started udev\n[12.500001] [    5.500000] random: crng init done\n[19.500001] login: \n"))
	if err != nil || len(log.Lines) != 3 || log.Lines[2].At != 5_500_000 || log.Unstamped != 4 {
		t.Errorf("%v, %+v", err, log)
	}
}

// Kernels of Amlogic write the CPU behind the time.
func TestTheCPUBehindTheTime(t *testing.T) {
	log, err := Parse("x", []byte("[    0.000000@0] Linux version 4.9.113\n<6>[    0.100000@1] b\n"+
		"console: [    0.200000@12]  c\n"))
	if err != nil || len(log.Lines) != 3 || log.Lines[2].At != 200_000 || log.Lines[1].Caller != "C1" ||
		log.Lines[1].Text != "b" {
		t.Errorf("%v, %+v", err, log)
	}
}

// The host gets its name while it boots. Lines of programs are not the kernel's under either name.
func TestTheHostOfAJournalChanges(t *testing.T) {
	log, err := Parse("x", []byte("[    0.000000] localhost kernel: Linux version 6\n[    0.500000] web1 systemd[1]: "+
		"Started a.\n[    0.600000] web1 kernel: [    T9] b\n[    0.700000] web1 audit: c\n"+
		"[    0.800000] web1 Web Content[7]: d\n[    0.900000] web2 sshd[4]: e\n"))
	if err != nil || len(log.Lines) != 2 || log.Programs != 4 || log.Lines[1].Text != "b" || log.Lines[1].Caller != "T9" {
		t.Errorf("%v, %+v", err, log)
	}
	log, err = Parse("x", []byte("[    0.000000] kernel: Linux version 6\n[    0.500000] systemd[1]: Started a.\n"+
		"[    0.600000] kernel: b: c\n"))
	if err != nil || len(log.Lines) != 2 || log.Programs != 1 || log.Lines[1].Text != "b: c" {
		t.Errorf("%v, %+v", err, log)
	}
}

// journalctl -o short-delta writes no difference in its first line.
const delta = "[    0.000000                ] host kernel: Linux version 6.12.0 (b@h) #1 SMP\n" +
	"[    0.000000 <    0.000000 >] host kernel: Command line: root=/dev/vda initcall_debug\n" +
	"[    0.100000 <    0.100000 >] host kernel: calling  acpi_init+0x0/0x120 @ 1\n" +
	"[    0.150000 <    0.050000*>] host kernel: initcall acpi_init+0x0/0x120 returned 0 after 49990 usecs\n" +
	"[    0.600000 <    0.450000 >] host kernel: Run /init as init process\n"

// wrapped are the messages in JSON: of LAVA and of Docker.
func wrapped() (files []string) {
	var lava, docker strings.Builder
	for _, m := range messages {
		lava.WriteString(`- {"dt": "2026-11-30T18:26:51.123456", "lvl": "target", "msg": "\e[32m[` + m.time + `]\e[0m ` +
			m.text + `"}` + "\n")
		docker.WriteString(`{"log":"\u001b[32m[` + m.time + `] ` + m.text + `\r\n","stream":"stdout",` +
			`"time":"2026-11-30T18:26:51.123Z"}` + "\n")
	}
	return []string{lava.String(), docker.String()}
}

func TestLinesInOtherFormsAreTheSame(t *testing.T) {
	for _, file := range append(wrapped(), delta) {
		log, err := Parse("x", []byte(file))
		if err != nil || len(log.Lines) != len(messages) || log.Unstamped+log.Skipped.Count+log.Programs > 0 {
			t.Errorf("%s: %v, %+v", file, err, log)
			continue
		}
		for i, m := range messages {
			if line := log.Lines[i]; line.Text != m.text {
				t.Errorf("%s: line %d is %q, want %q", file, i, line.Text, m.text)
			}
		}
		if !Stamped([]byte(file)) {
			t.Errorf("%s is not recognized", file)
		}
	}
}

// Xen writes to the same console, with the times of another clock.
const xen = "(XEN) [    3.100000] *** Serial input to DOM0\n[    0.000000] Linux version 6\n" +
	"(XEN) [    3.400000] d0 attempted WRMSR\n[    0.600000] a\n[    9.600000] (XEN) [    3.500000] b\n"

func TestLinesOfXenAreLeftOut(t *testing.T) {
	log, err := Parse("x", []byte(xen))
	if err != nil || len(log.Lines) != 2 || log.Xen != 3 || log.Lines[1].Text != "a" {
		t.Fatalf("%v, %+v", err, log)
	}
	if notes := log.Notes("x"); len(notes) != 1 || !strings.HasPrefix(notes[0].Text, "3 lines were written by the hyp") {
		t.Errorf("notes %+v", notes)
	}
	log, err = Parse("x", []byte("(XEN) [    0.000012] Xen version 4.17.2\n(XEN) [    0.100000] a\n"))
	if err != nil || len(log.Lines) != 2 || log.Xen != 0 {
		t.Errorf("%v, %+v", err, log)
	}
}

// Times that cannot be read are refused with the command that gives better ones.
func TestOtherTimesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[Fri Nov 27 06:50:23 2026] Linux version 6.12.0\n":                            "x:1: the times are whole seconds",
		"kern  :notice: [Fri Nov 27 06:50:23 2026] Linux version 6.12.0\n":             "x:1: the times are whole seconds",
		"[Fr Nov 27 06:50:23 2026] Linux version 6.12.0\n":                             "x:1: the times are whole seconds",
		"[ven. nov. 27 06:50:23 2026] Linux version 6.12.0\n":                          "x:1: the times are whole seconds",
		"[金 11月  7 06:50:23 2026] Linux version 6.12.0\n":                              "x:1: the times are whole seconds",
		"kern  :notice: [Nov27 06:50] Linux\nkern  :info  : [  +0.000012] Command\n":   "x:1: the times are differences",
		"[déc.27 06:50] Linux version 6.12.0\n":                                        "x:1: the times are differences",
		"kern  :notice: [<    0.000000>] Linux version 6.12.0\n":                       "x:1: the times are differences",
		"kern  :info  : 2026-11-27T06:50:23,123456+00:00 Linux version 6.12.0\n":       "x:1: the times are those of the",
		"[Nov27 06:50] Linux version 6.12.0\n[  +0.000012] Command line: \n":           "x:1: the times are differences",
		"[<    0.000000>] Linux version 6.12.0\n":                                      "x:1: the times are differences",
		"2026-11-27T06:50:23,123456+00:00 Linux version 6.12.0\n":                      "x:1: the times are those of the",
		"-- Boot --\nNov 27 06:50:23 host kernel: Linux version 6.12.0\n":              "x:2: the times are those of syslog",
		"Nov 27 06:50:23.123456 host kernel: Linux version 6.12.0\n":                   "x:1: the times are those of syslog",
		"2026-11-27T06:50:23+0000 host kernel: Linux version 6.12.0\n":                 "x:1: the times are those of syslog",
		"{\n   \"dmesg\": [\n      {\n         \"pri\": 5,\n":                          "x:2: this is JSON of dmesg or jour",
		"{\"MESSAGE\":\"Linux version\",\"__MONOTONIC_TIMESTAMP\":\"1\"}\n":            "x:1: this is JSON of dmesg or jour",
		"1764486000.000000 host kernel: Linux version 6.12.0\n":                        "x:1: the times are those of syslog",
		"Mon 2026-11-30 18:26:51 UTC kernel: Linux version 6.12.0\n":                   "x:1: the times are those of syslog",
		"__CURSOR=s=a\n__MONOTONIC_TIMESTAMP=0\nMESSAGE=Linux version 6.12.0\n":        "x:2: these are the fields of journ",
		"Mon 2026-11-30 18:26:51.000000 UTC [s=ab;i=1;b=cd]\n    MESSAGE=Linux\n":      "x:1: these are the fields of journ",
		"{\n\t\"_HOSTNAME\" : \"h\",\n\t\"__MONOTONIC_TIMESTAMP\" : \"0\",\n":          "x:3: this is JSON of dmesg or jour",
		"data: {\"MESSAGE\":\"Linux version\",\"__MONOTONIC_TIMESTAMP\":\"1\"}\n":      "x:1: this is JSON of dmesg or jour",
		"{ \"dmesg\": [ {\"pri\":5,\"time\":0.000000,\"msg\":\"Linux version 6\"} ]\n": "x:1: this is JSON of dmesg or jour",
	} {
		_, err := Parse("x", []byte(text))
		if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// A damaged line is left out and counted; the rest of the log is read.
func TestADamagedLineIsLeftOut(t *testing.T) {
	const before, after = "[    0.000000] a\n[    0.100000] b\n[    0.150000] c\n", "[    0.200000] d\n[    0.300000] e\n"
	for name, wrong := range map[string]string{
		"digits":          "[    0.1] x\n",
		"far ahead":       "[99999.100000] x\n",
		"far behind":      "[    0.000001] x\n",
		"long":            "[    0.150000] " + strings.Repeat("x", 70_000) + "\n",
		"without a stamp": "[    0.15\n",
	} {
		file := before + wrong + after
		if name == "far behind" {
			file = strings.ReplaceAll(file, "[    0.", "[    7.")
			file = strings.Replace(file, "[    7.000001] x", "[    0.000001] x", 1)
		}
		log, err := Parse("x", []byte(file))
		var got []string
		for _, l := range log.Lines {
			got = append(got, l.Text)
		}
		if err != nil || !slices.Equal(got, []string{"a", "b", "c", "d", "e"}) ||
			log.Skipped.Count+log.Unstamped != 1 || log.Skipped.Count == 1 && log.Skipped.Line != 4 {
			t.Errorf("%s: %v, %q, %+v", name, err, got, log.Skipped)
		}
	}
	for _, file := range []string{"[    9.000000] a\n[    9.100000] b\n[    0.000000] c\n[    0.100000] d\n",
		"[    9.000000] a\n[    0.000000] Linux version 6\n[    9.100000] b\n",
		"[    0.000000] Linux version 6\n[    0.200000] a\n[    0.000000] Linux version 6\n[    0.200000] a\n"} {
		if _, err := Parse("x", []byte(file)); err == nil || !strings.Contains(err.Error(), "a second boot") {
			t.Errorf("two boots are one log: %v", err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, p := range prefixes {
		f.Add([]byte(p.before + "[" + messages[0].time + "]" + p.after + messages[0].text + "\n"))
	}
	f.Add([]byte("[    9.000000 <    0.1>] a\n[    0.000000] host kernel: b\n[99999.0] c\n"))
	f.Add([]byte("[Fri Nov 27 06:50:23 2026] Linux version 6.12.0\n"))
	for _, file := range append(wrapped(), delta, xen) {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		log, err := Parse("x", data)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Error(err)
			}
			return
		}
		latest := int64(0)
		for _, line := range log.Lines {
			if line.At < latest {
				t.Fatalf("%+v", log)
			}
			latest = line.At
		}
		if len(log.Lines) > 0 {
			log.Marks()
			log.Notes("x")
		}
	})
}

// NetBSD measures its own time by the processor's counter. It wins over a clock of the log
// that does not run yet, and the log's note says so.
func TestTheKernelsOwnFigureWins(t *testing.T) {
	for _, c := range []struct {
		stamp, figure string
		at            int64  // µs after the first line
		want          string // in a note; "" if nothing contradicts
	}{
		{"1.010003", "253ms", 253000, "the clock of the log stood still or ran too slowly"},
		{"1.250000", "253ms", 253000, ""},
		{"1.549000", "253ms", 253000, "the clock of the log ran too fast"},
		{"1.010003", "unknown", 10003, ""},
	} {
		log, err := Parse("x", []byte("[ 1.000000] NetBSD 10.99 (MICROVM) #0\n[ "+c.stamp+"] kernel boot time: "+
			c.figure+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		marks, _ := log.Marks()
		if got := marks[len(marks)-1]; got.At != 1000000+c.at {
			t.Errorf("%s and %s: the mark is at %d µs, want %d", c.stamp, c.figure, got.At-1000000, c.at)
		}
		notes := log.Notes("dmesg")
		found := slices.ContainsFunc(notes, func(n bootmodel.Note) bool { return strings.Contains(n.Text, ownTime) })
		if found != (c.want != "") || found && !strings.Contains(notes[0].Text, c.want) {
			t.Errorf("%s and %s: notes %v, want %q", c.stamp, c.figure, notes, c.want)
		}
	}
}
