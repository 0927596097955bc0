package bootlog

import (
	"bytes"
	"os"
	"strings"

	"bakeoff/reach/wire"
)

// bootLogs are what the kernel recorded, and what systemd knows if it is process 1.
func bootLogs() []wire.SystemLog {
	logs := []wire.SystemLog{kernelLog()}
	if name, err := os.ReadFile("/proc/1/comm"); err == nil && strings.TrimSpace(string(name)) == "systemd" {
		logs = append(logs, systemdLog())
	}
	return logs
}

// systemdLog is the properties of the manager, an empty line, and those of all units.
func systemdLog() wire.SystemLog {
	l := printed("systemd", "systemctl", "show")
	if l.Error != "" {
		return l
	}
	units := printed("systemd", "systemctl", "show", "*")
	l.Text, l.Error = l.Text+"\n"+units.Text, units.Error
	return l
}

// kernelLog is what boot-events prints.
func kernelLog() wire.SystemLog {
	l := wire.SystemLog{Source: "linux"}
	var text bytes.Buffer
	if err := writeBootEvents(&text); err != nil {
		l.Error = err.Error()
		return l
	}
	if text.Len() > maxBootText {
		l.Error = "the record of the kernel has more than 16 MiB"
		return l
	}
	l.Text = strings.ToValidUTF8(text.String(), "\uFFFD")
	return l
}
