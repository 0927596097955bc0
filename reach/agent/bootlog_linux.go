package agent

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"bakeoff/reach/wire"
)

// bootLogs are the messages of the kernel, and what systemd knows if it is process 1.
func bootLogs() []wire.SystemLog {
	logs := []wire.SystemLog{kernelLog()}
	if name, err := os.ReadFile("/proc/1/comm"); err == nil && strings.TrimSpace(string(name)) == "systemd" {
		logs = append(logs, systemdLog())
	}
	return logs
}

func systemdLog() wire.SystemLog {
	return printed("systemd", "systemctl", "show", "--all", "--no-pager", "*")
}

// kernelLog reads the ring buffer of the kernel, with a line of our own in it that ties
// its clock to the monotonic clock.
func kernelLog() wire.SystemLog {
	l := wire.SystemLog{Source: "linux"}
	mark := fmt.Sprintf("bakeoff-agent: clock %d.%d", os.Getpid(), monotonic())
	after := monotonic()
	said := writeKernelLog(mark)
	before := monotonic()
	text, err := readKernelLog()
	if err != nil {
		l.Error = "the ring buffer of the kernel: " + err.Error()
		return l
	}
	if said == nil {
		if at, rest, ok := takeLine(text, mark); ok {
			text, l.Clock = rest, &wire.ClockPair{LogNS: at, AfterNS: after, BeforeNS: before}
		}
	}
	l.Text = strings.ToValidUTF8(string(text), "\uFFFD")
	return l
}

func writeKernelLog(line string) error {
	f, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("<7>" + line + "\n")
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// readKernelLog returns what the kernel's ring buffer holds, each line with its level
// and its time.
func readKernelLog() ([]byte, error) {
	size, err := unix.Klogctl(unix.SYSLOG_ACTION_SIZE_BUFFER, nil)
	if err != nil {
		return nil, err
	}
	// The lines are longer as text, and the buffer may grow meanwhile.
	text := make([]byte, min(4*size+1<<16, maxBootText))
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, text)
	if err != nil {
		return nil, err
	}
	return text[:n], nil
}

var kernelTime = regexp.MustCompile(`^(?:<[0-9]+>)?\[ *([0-9]{1,9})\.([0-9]{6})\]`)

// takeLine takes the line with mark out of a log, and returns its time in nanoseconds.
func takeLine(text []byte, mark string) (at int64, rest []byte, ok bool) {
	found := bytes.LastIndex(text, []byte(mark))
	if found < 0 {
		return 0, text, false
	}
	begin := bytes.LastIndexByte(text[:found], '\n') + 1
	end := len(text)
	if n := bytes.IndexByte(text[found:], '\n'); n >= 0 {
		end = found + n + 1
	}
	m := kernelTime.FindSubmatch(text[begin:end])
	if m == nil {
		return 0, text, false
	}
	s, _ := strconv.ParseInt(string(m[1]), 10, 64) // bounded by the pattern
	us, _ := strconv.ParseInt(string(m[2]), 10, 64)
	return (s*1e6 + us) * 1000, append(bytes.Clone(text[:begin]), text[end:]...), true
}
