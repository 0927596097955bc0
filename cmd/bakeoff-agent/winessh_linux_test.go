package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/shell"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/ssh"
	"bakeoff/reach/conn/sshtest"
)

// sftpServer is the program of OpenSSH, and asSFTP the variable that makes this executable a
// server of SFTP with the drive C: of a Windows.
const (
	sftpServer = "/usr/lib/openssh/sftp-server"
	asSFTP     = "BAKEOFF_TEST_DRIVE"
)

func TestMain(m *testing.M) {
	if drive := os.Getenv(asSFTP); drive != "" {
		if err := serveDrive(drive, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serveDrive is the server of SFTP of a Windows: /C:/… is a folder of this system.
func serveDrive(drive string, in io.Reader, out io.Writer) error {
	server := exec.Command(sftpServer)
	server.Stdout, server.Stderr = out, os.Stderr
	to, err := server.StdinPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	for {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			break
		}
		packet := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(in, packet); err != nil {
			break
		}
		packet = onDrive(packet, drive)
		if _, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(packet))), packet...)); err != nil {
			break
		}
	}
	to.Close()
	return server.Wait()
}

// onDrive replaces the drive in the paths of a request: every string that begins with it.
//
// Source: draft-ietf-secsh-filexfer-02.
func onDrive(packet []byte, drive string) []byte {
	const write = 6 // a packet with data of the file
	if len(packet) == 0 || packet[0] == write {
		return packet
	}
	var out []byte
	for i := 0; i < len(packet); {
		if rest := packet[i:]; len(rest) > 8 && strings.HasPrefix(string(rest[4:]), "/C:/") {
			n := int(binary.BigEndian.Uint32(rest))
			if path := rest[4:]; n <= len(path) {
				name := drive + string(path[3:n])
				out = append(binary.BigEndian.AppendUint32(out, uint32(len(name))), name...)
				i += 4 + n
				continue
			}
		}
		out = append(out, packet[i])
		i++
	}
	return out
}

// A machine with OpenSSH for Windows is reached: through cmd.exe of Wine, and through a shell that
// answers as PowerShell does. The agent is copied by SFTP, once, and runs under Wine.
func TestWindowsOverSSH(t *testing.T) {
	w := newWine(t)
	if _, err := os.Stat(sftpServer); err != nil {
		t.Skip("needs sftp-server: apt-get install openssh-sftp-server")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var exports strings.Builder
	for _, v := range w.env {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "WINE") || name == "HOME" {
			fmt.Fprintf(&exports, "export %s=%s\n", name, shell.Quote(value))
		}
	}
	prefix := w.env[len(w.env)-3]
	drive := filepath.Join(strings.TrimPrefix(prefix, "WINEPREFIX="), "drive_c")
	for name, runs := range map[string]string{
		"cmd": `exec ` + w.program + ` cmd /c "$SSH_ORIGINAL_COMMAND"`,
		// PowerShell runs the program after &, and knows no %OS%.
		"powershell": `case "$SSH_ORIGINAL_COMMAND" in
'echo %OS%') echo %OS% ;;
'$env:PROCESSOR_ARCHITECTURE; $env:LOCALAPPDATA') printf 'AMD64\r\nC:\\users\\Ann\r\n' ;;
'& '*) exec ` + w.program + ` cmd /c "${SSH_ORIGINAL_COMMAND#& }" ;;
*) echo "The term is not recognized as the name of a cmdlet" >&2; exit 1 ;;
esac`,
	} {
		t.Run(name, func(t *testing.T) {
			s := sshtest.Start(t)
			script := filepath.Join(dir, name)
			text := fmt.Sprintf(
				"#!/bin/sh\n%s\nif [ \"$SSH_ORIGINAL_COMMAND\" = %s ]; then %s=%s exec %s; fi\n%s\n",
				&exports,
				sshtest.SFTPCommand,
				asSFTP,
				drive,
				self,
				runs,
			)
			if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			if name == "powershell" {
				if err := os.MkdirAll(filepath.Join(drive, "users", "Ann"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			s.Force(script)
			var said []string
			o := ssh.Options{Name: "box", Target: sshtest.Target, Config: s.Config,
				Agent: func(goos, goarch string) (string, error) {
					if goos != "windows" || goarch != "amd64" {
						t.Errorf("asked for the agent of %s on %s", goos, goarch)
					}
					return w.agent, nil
				},
				Progress: func(text string) { said = append(said, text) }}
			for range 2 { // the second connection finds the agent there
				c, err := ssh.Open(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if m := c.Machine(); m.GOOS != "windows" || !strings.HasPrefix(c.Agent(), "/C:/users/") ||
					!strings.HasSuffix(c.StateDir(), "/bakeoff/state") {
					t.Errorf("the machine is %+v, its agent %s, its state %s", m, c.Agent(), c.StateDir())
				}
				out, err := conn.Output(t.Context(), c, "cmd", "/c", "echo %OS%")
				if err != nil || strings.TrimSpace(string(out)) != "Windows_NT" {
					t.Errorf("it printed %q, %v", out, err)
				}
				file := c.CacheDir() + "/pushed"
				if err := c.Push(t.Context(), file, 0o600, strings.NewReader("a\r\nb\x1ac")); err != nil {
					t.Fatal(err)
				}
				if b, err := c.ReadFile(t.Context(), file); err != nil || string(b) != "a\r\nb\x1ac" {
					t.Errorf("read %q, %v", b, err)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			if len(said) != 1 || !strings.Contains(said[0], "copying bakeoff-agent") {
				t.Errorf("it said %q, want one copy", said)
			}
		})
	}
}
