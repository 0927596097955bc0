package ssh

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/hostpath"
	"bakeoff/base/safetext"
	"bakeoff/reach/conn"
)

// OpenSSH for Windows passes a command line to cmd.exe, or to PowerShell if the machine's
// DefaultShell says so. Files are copied with SFTP, which needs no shell.
//
// This is unproven: tests use the cmd.exe of Wine, and a script that answers like PowerShell.
//
// Source: "OpenSSH Server configuration for Windows Server and Windows", learn.microsoft.com.
const (
	shellCMD        = "cmd"
	shellPowerShell = "powershell"
)

// whichShell is a command of cmd.exe and of PowerShell: the former expands the variable, and the
// latter prints its name.
const whichShell = "echo %OS%"

// windowsHello prints the architecture and the user's folder for local data.
var windowsHello = map[string]string{
	shellCMD:        "echo %PROCESSOR_ARCHITECTURE%& echo %LOCALAPPDATA%",
	shellPowerShell: "$env:PROCESSOR_ARCHITECTURE; $env:LOCALAPPDATA",
}

// askWindows asks what the other side is, if it is Windows. found is false if it is not.
func (c *client) askWindows(ctx context.Context) (s site, found bool, err error) {
	answer := func(line string) (string, error) {
		out := conn.Head{Limit: 16 << 10}
		_, err := c.start(ctx, append(c.args(c.o.Program), "--", c.o.Target, line), nil, &out, nil)
		return string(out.Bytes()), err
	}
	text, err := answer(whichShell)
	if err != nil {
		return s, false, err
	}
	shell := ""
	switch strings.TrimSpace(text) {
	case "Windows_NT":
		shell = shellCMD
	case "%OS%":
		shell = shellPowerShell
	default:
		return s, false, nil
	}
	if text, err = answer(windowsHello[shell]); err != nil {
		return s, false, err
	}
	s, err = parseWindows(text)
	if s.shell = shell; shell == shellPowerShell && fault.Is(err, fault.Lab) {
		return s, false, nil // a POSIX shell prints %OS%, too
	}
	return s, true, err
}

// parseWindows reads the output of windowsHello: the last two lines.
func parseWindows(text string) (site, error) {
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "\r", "")), "\n")
	if len(lines) < 2 {
		return site{}, fault.New(fault.Lab, "unexpected answer of Windows: %q", safetext.Line(text))
	}
	arch, local := strings.TrimSpace(lines[len(lines)-2]), strings.TrimSpace(lines[len(lines)-1])
	s := site{goos: "windows", goarch: map[string]string{"AMD64": "amd64", "ARM64": "arm64"}[arch]}
	if s.goarch == "" {
		return s, fault.New(fault.Unsupported, "no bakeoff-agent for Windows on %s", safetext.Line(arch))
	}
	folder := hostpath.FromWindows(local)
	if !path.IsAbs(folder) || !plainForWindows(folder) {
		return s, fault.New(
			fault.Unsupported,
			"bakeoff cannot use the remote user's folder for local data, %q; set `dir` of the host, such as /C:/bakeoff",
			safetext.Line(local),
		)
	}
	s.cache, s.state = path.Join(folder, "bakeoff", "cache"), path.Join(folder, "bakeoff", "state")
	return s, nil
}

// plainForWindows reports whether a word means the same in both shells between quotes, and in a
// batch of sftp.
func plainForWindows(word string) bool {
	return !strings.ContainsFunc(
		word,
		func(r rune) bool { return r < ' ' || strings.ContainsRune("\"'`$%!^&|<>*?", r) },
	)
}

// windowsLine is the command line for a program.
func windowsLine(shell string, argv []string) (string, error) {
	words := make([]string, len(argv))
	for i, a := range argv {
		if !plainForWindows(a) {
			return "", fault.New(
				fault.Unsupported,
				"ssh: the argument %q has a character that a shell of Windows may expand",
				safetext.Line(a),
			)
		}
		if words[i] = a; strings.ContainsRune(a, ' ') || a == "" {
			words[i] = map[string]string{shellCMD: `"` + a + `"`, shellPowerShell: "'" + a + "'"}[shell]
		}
	}
	line := strings.Join(words, " ")
	if shell == shellPowerShell {
		line = "& " + line
	}
	return line, nil
}

// runOn is run for the agent on any system.
func (c *client) runOn(ctx context.Context, where site, argv []string, stdin io.Reader,
	stdout, stderr io.Writer) (conn.Exit, error) {
	if where.shell == "" {
		return c.run(ctx, argv, stdin, stdout, stderr)
	}
	argv = append([]string{hostpath.Windows(argv[0])}, argv[1:]...)
	line, err := windowsLine(where.shell, argv)
	if err != nil {
		return conn.Exit{}, err
	}
	return c.start(ctx, append(c.args(c.o.Program), "--", c.o.Target, line), stdin, stdout, stderr)
}

// pushWindows copies a file to the other side by SFTP, unless it is there, and returns its path. A
// transfer that is interrupted leaves a file with another name.
func (c *client) pushWindows(ctx context.Context, there, file string, size int64) (string, error) {
	if !plainForWindows(there) || !plainForWindows(file) {
		return "", fault.WithFix(fault.New(fault.Unsupported, "ssh: cannot copy %q to %q", file, there),
			"use a folder whose name has letters, digits, spaces and ._- only")
	}
	if exit, out, err := c.sftp(ctx, fmt.Sprintf("ls -ln \"%s\"", there)); err != nil {
		return "", err
	} else if fields := strings.Fields(out); exit.OK() && len(fields) > 4 && fields[4] == fmt.Sprint(size) {
		return there, nil
	}
	c.o.reportProgress("copying bakeoff-agent for windows to %s; it is unproven: tests run it under Wine", c.o.Name)
	var batch strings.Builder
	// A line that begins with - may fail: the folders may exist, and the file may not.
	parts := strings.Split(strings.TrimPrefix(path.Dir(there), "/"), "/")
	for i := 2; i <= len(parts); i++ {
		fmt.Fprintf(&batch, "-mkdir \"/%s\"\n", strings.Join(parts[:i], "/"))
	}
	fmt.Fprintf(
		&batch,
		"put \"%s\" \"%s.new\"\n-rm \"%s\"\nrename \"%s.new\" \"%s\"\n",
		file,
		there,
		there,
		there,
		there,
	)
	exit, out, err := c.sftp(ctx, batch.String())
	if err == nil && !exit.OK() {
		err = fault.New(fault.Lab, "ssh %s: cannot copy bakeoff-agent to %s: %s", c.o.Target, path.Dir(there), brief(out))
	}
	return there, err
}

// sftp runs the commands of a batch, and returns what sftp printed.
func (c *client) sftp(ctx context.Context, batch string) (conn.Exit, string, error) {
	out, errs := &conn.Tail{Limit: 8 << 10}, &conn.Tail{Limit: 2 << 10}
	program := path.Join(path.Dir(c.o.Program), "sftp") // beside ssh
	exit, err := c.start(
		ctx,
		append(c.args(program), "-q", "-b", "-", "--", c.o.Target),
		strings.NewReader(batch),
		out,
		errs,
	)
	lines := strings.Split(string(out.Bytes()), "\n")
	kept := lines[:0]
	for _, l := range lines { // a batch repeats its commands
		if !strings.HasPrefix(l, "sftp> ") {
			kept = append(kept, l)
		}
	}
	return exit, strings.TrimSpace(strings.Join(kept, "\n") + "\n" + string(errs.Bytes())), err
}
