// Package sshtest gives tests a real sshd on the loopback interface, in place
// of another machine. Tests can simulate its failures: it stops and comes back,
// its connections are cut, its host key changes, its line is slow.
package sshtest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Target is the name of the machine in the client's configuration.
const Target = "box"

// Server is an sshd with its own keys, configuration and port. It lets in the
// user that runs the test.
type Server struct {
	t    testing.TB
	dir  string
	port int
	proc *exec.Cmd
	log  string

	// Config is a configuration for the client, in which Target is this
	// server and its host key is known.
	Config string
	// KnownHosts is the file with its host key, in line 2.
	KnownHosts string
	// HostLock is the lock of bakeoff on the simulated machine, which is not that of the
	// real one: other tests run at the same time.
	HostLock string
}

// sshd must be called by its absolute path, because it executes itself for each
// connection.
var places = []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/lib/ssh/sshd", "/usr/libexec/sshd"}

// Start starts a server and stops it at the end of the test. Without OpenSSH,
// or in a short run, it skips the test.
func Start(t testing.TB) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("a real sshd is started without -short only")
	}
	program := ""
	for _, p := range places {
		if _, err := os.Stat(p); err == nil {
			program = p
			break
		}
	}
	for _, p := range []string{"ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(p); err != nil {
			program = ""
		}
	}
	if program == "" {
		t.Skip("needs OpenSSH: apt-get install openssh-server openssh-client")
	}
	dir := t.TempDir()
	s := &Server{t: t, dir: dir, log: filepath.Join(dir, "log"),
		Config: filepath.Join(dir, "config"), KnownHosts: filepath.Join(dir, "known hosts"),
		HostLock: filepath.Join(dir, "machine.lock")}
	if os.Getuid() == 0 {
		// sshd of root wants this to exist, and to be empty.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.key("user")
	s.key("host")
	s.write("authorized", read(t, filepath.Join(dir, "user.pub")), 0o600)
	s.Trust()
	s.proc = exec.Command(program, "-D", "-f", filepath.Join(dir, "sshd_config"), "-E", s.log)
	// Another program may take a port before sshd does.
	for try := 1; ; try++ {
		s.port = FreePort(t)
		s.configure()
		err := s.start()
		if err == nil {
			break
		}
		if try == 10 {
			t.Fatal(err)
		}
		s.proc = exec.Command(s.proc.Path, s.proc.Args[1:]...)
	}
	s.Configure(s.port)
	t.Cleanup(s.Stop)
	return s
}

// configure writes the configuration of sshd.
func (s *Server) configure() {
	s.t.Helper()
	s.write("sshd_config", fmt.Sprintf(`ListenAddress 127.0.0.1
Port %d
HostKey %s/host
AuthorizedKeysFile %s/authorized
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxSessions 50
MaxStartups 100
AllowTcpForwarding yes
LogLevel VERBOSE
SetEnv BAKEOFF_LOCK=%s
`, s.port, s.dir, s.dir, s.HostLock), 0o600)
}

// Configure writes the client's configuration for a port on the loopback
// interface: the server's own, or that of a proxy.
func (s *Server) Configure(port int) {
	me, err := user.Current()
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("config", fmt.Sprintf(`Host %s
  HostName 127.0.0.1
  Port %d
  User %s
  HostKeyAlias bakeoff-test-box
  IdentityFile %s/user
  IdentitiesOnly yes
  UserKnownHostsFile "%s"
  GlobalKnownHostsFile none
`, Target, port, me.Username, s.dir, s.KnownHosts), 0o600)
}

// PID is the server's process, whose connections are its children.
func (s *Server) PID() int { return s.proc.Process.Pid }

// Trust writes the current host key into KnownHosts.
func (s *Server) Trust() {
	fields := strings.Fields(read(s.t, filepath.Join(s.dir, "host.pub")))
	s.write("known hosts", "# keys\nbakeoff-test-box "+fields[0]+" "+fields[1]+"\n", 0o600)
}

// ChangeKey gives the server another host key, like a reinstalled or replaced
// machine.
func (s *Server) ChangeKey() {
	for _, f := range []string{"host", "host.pub"} {
		os.Remove(filepath.Join(s.dir, f))
	}
	s.key("host")
	s.Stop()
	s.Restart()
}

// Environ sets an environment variable of remote programs, such as
// PATH=/usr/bin, and restarts the server.
func (s *Server) Environ(assignment string) {
	s.t.Helper()
	config := filepath.Join(s.dir, "sshd_config")
	// sshd reads only the first line with SetEnv.
	s.write("sshd_config", strings.TrimSuffix(read(s.t, config), "\n")+" "+assignment+"\n", 0o600)
	s.Stop()
	s.Restart()
}

// Force has a program run in place of the user's shell, and restarts the server. The program finds
// the command line in SSH_ORIGINAL_COMMAND: for SFTP it is SFTPCommand.
func (s *Server) Force(program string) {
	s.t.Helper()
	config := filepath.Join(s.dir, "sshd_config")
	s.write("sshd_config", fmt.Sprintf("ForceCommand %s\nSubsystem sftp %s\n", program, SFTPCommand)+read(s.t, config),
		0o600)
	s.Stop()
	s.Restart()
}

// SFTPCommand is the command of SFTP of a server with Force.
const SFTPCommand = "sftp-of-the-test"

// Cut kills every connection and returns their number; the server keeps
// running.
func (s *Server) Cut() int {
	return cut(s.proc.Process.Pid)
}

// cut kills the processes of sshd below one. Since OpenSSH 9.8 a connection can have
// several, one below the other; what runs in it is not among them.
func cut(parent int) (n int) {
	for _, pid := range children(parent) {
		n += cut(pid)
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

// Stop ends the server with every connection.
func (s *Server) Stop() {
	if s.proc.Process == nil || s.proc.ProcessState != nil {
		return
	}
	syscall.Kill(s.proc.Process.Pid, syscall.SIGSTOP) // it must not accept another
	s.Cut()
	s.proc.Process.Kill()
	s.proc.Wait()
}

// Restart starts a server that was stopped, at the same port.
func (s *Server) Restart() {
	s.t.Helper()
	s.proc = exec.Command(s.proc.Path, s.proc.Args[1:]...)
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
}

// start starts sshd and returns when it listens, or when it says that it cannot. (A
// connection to the port would not tell it from another program there.)
func (s *Server) start() error {
	s.t.Helper()
	before := s.said()
	if err := s.proc.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		said := s.said()[len(before):]
		if strings.Contains(said, "Server listening on ") {
			return nil
		}
		if strings.Contains(said, "Cannot bind any address") || time.Now().After(deadline) {
			s.proc.Process.Kill()
			s.proc.Wait()
			return fmt.Errorf("sshd does not listen at port %d:\n%s", s.port, said)
		}
	}
}

// said is the log of sshd.
func (s *Server) said() string {
	b, err := os.ReadFile(s.log)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	return string(b)
}

func (s *Server) key(name string) {
	s.t.Helper()
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f",
		filepath.Join(s.dir, name)).CombinedOutput()
	if err != nil {
		s.t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
}

func (s *Server) write(name, text string, mode os.FileMode) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), mode); err != nil {
		s.t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// FreePort returns an unused port outside the range from which systems assign
// ports (from 32768 or 49152 on), so that no other test's connection gets it
// while the server is stopped.
func FreePort(t testing.TB) int {
	t.Helper()
	var err error
	for range 100 {
		port := 20000 + rand.IntN(12000)
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal(err)
	return 0
}

// children lists the processes of sshd that pid started.
func children(pid int) []int {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,comm=").Output()
	if err != nil {
		return nil
	}
	var all []int
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) >= 3 && f[1] == strconv.Itoa(pid) && strings.HasPrefix(filepath.Base(f[2]), "sshd") {
			if n, err := strconv.Atoi(f[0]); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}

// Slow puts a proxy in front of the server that carries bytesPerSecond in each
// direction, and makes the client use it.
func (s *Server) Slow(bytesPerSecond int) {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(s.port))
			if err != nil {
				c.Close()
				continue
			}
			go trickle(to, c, bytesPerSecond)
			go trickle(c, to, bytesPerSecond)
		}
	}()
	s.Configure(l.Addr().(*net.TCPAddr).Port)
}

// trickle copies at a rate, in pieces of a twentieth of a second.
func trickle(dst io.WriteCloser, src io.ReadCloser, bytesPerSecond int) {
	defer dst.Close()
	defer src.Close()
	buf := make([]byte, max(1, bytesPerSecond/20))
	for {
		n, err := src.Read(buf)
		if _, werr := dst.Write(buf[:n]); err != nil || werr != nil {
			return
		}
		time.Sleep(time.Duration(n) * time.Second / time.Duration(bytesPerSecond))
	}
}
