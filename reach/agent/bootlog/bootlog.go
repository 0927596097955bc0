// Package bootlog prints what a system recorded about its boot: the kernel's messages, and the
// times of processes and functions where the kernel or systemd has them.
package bootlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"bakeoff/base/safetext"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/wire"
)

// Run is the subcommand `boot-log`: it prints what this system recorded about its boot. A record that does not
// exist or cannot be read is an entry with the reason, not an error.
func Run(c command.Call) int {
	if len(c.Args) > 0 {
		return c.Fail(command.UsageError("boot-log takes no arguments"))
	}
	return c.Print(wire.BootLog{Schema: wire.BootLogSchema, System: runtime.GOOS, Logs: bootLogs()})
}

const (
	bootLogTime = time.Minute // bounds one program
	maxBootText = 16 << 20    // of one record, in bytes
)

// printed is the output of a program of this system as a record.
func printed(source string, argv ...string) wire.SystemLog {
	ctx, cancel := context.WithTimeout(context.Background(), bootLogTime)
	defer cancel()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(cmd.Environ(), "LC_ALL=C", "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0")
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	l := wire.SystemLog{Source: source}
	switch {
	case err != nil:
		l.Error = argv[0] + ": " + err.Error()
		if text := safetext.LastLines(said.String(), 1); text != "" {
			l.Error += ": " + text
		}
	case out.Len() > maxBootText:
		l.Error = argv[0] + " printed more than 16 MiB"
	case len(bytes.TrimSpace(out.Bytes())) == 0:
		l.Error = argv[0] + " printed nothing"
	default:
		l.Text = strings.ToValidUTF8(out.String(), "\uFFFD")
	}
	return l
}

// kernelRecords are the records of a kernel with tslog(4), and its messages. read reads a
// setting by sysctl(2): a guest whose only program is the agent has neither sysctl(8) nor
// dmesg(8).
func kernelRecords(read func(name string) ([]byte, error)) []wire.SystemLog {
	log := settingText(read, "tslog", "debug.tslog")
	if log.Error == "" {
		// Without these the processes or the frequency of the counter are unknown.
		log.Text += settingText(read, log.Source, "debug.tslog_user").Text
		if b, err := read("machdep.tsc_freq"); err == nil && len(b) == 8 {
			log.Text += fmt.Sprintln(binary.LittleEndian.Uint64(b))
		}
	}
	return []wire.SystemLog{log, settingText(read, "dmesg", "kern.msgbuf")}
}

// settingText is the text of a setting as a record.
func settingText(read func(name string) ([]byte, error), source, name string) wire.SystemLog {
	l := wire.SystemLog{Source: source}
	b, err := read(name)
	text := bytes.TrimSpace(bytes.ReplaceAll(b, []byte{0}, nil))
	switch {
	case err != nil:
		l.Error = err.Error()
	case len(text) > maxBootText:
		l.Error = "sysctl " + name + " has more than 16 MiB"
	case len(text) == 0:
		l.Error = "sysctl " + name + " is empty"
	default:
		l.Text = strings.ToValidUTF8(string(text), "\uFFFD") + "\n"
	}
	return l
}
