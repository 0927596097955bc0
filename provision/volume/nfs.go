package volume

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/sleep"
	"bakeoff/reach/conn"
)

// Server is where the server of a volume on NFS listens: at an address of the experiment's
// network, at which the environment with the address Client reaches it.
type Server struct {
	Namespace string         `json:"namespace"` // network namespace of the host
	Addr      netip.AddrPort `json:"addr"`
	Client    netip.Addr     `json:"client"`
}

// The ports of servers begin below those that Linux gives to clients (from 32768), and each
// environment has some. The generator's end of the network has no other servers there.
const (
	firstPort       = 10000
	portsOfEnv      = 8
	portsOfNetworks = 1 << 11
)

// Place says where the servers of the NFS volumes of an environment listen.
func Place(vs []Volume, namespace string, gateway, client netip.Addr) {
	a, n := client.As16(), 0
	number := (int(a[14])<<8 | int(a[15])) % portsOfNetworks
	for i := range vs {
		if vs[i].Backing == NFS {
			port := uint16(firstPort + number*portsOfEnv + n%portsOfEnv)
			vs[i].Server = &Server{Namespace: namespace, Addr: netip.AddrPortFrom(gateway, port), Client: client}
			n++
		}
	}
}

// pseudo is the name by which clients mount the export.
const pseudo = "/volume"

// Export returns what a client mounts: the source and the options of mount(8), nfs(5).
func (s Server) Export(v Volume) (source, options string) {
	version := cmp.Or(v.Properties["version"], "4.2")
	// A server that does not answer makes programs wait, as everywhere: it is never a fault of
	// the program that a packet was late.
	return s.Addr.Addr().String() + ":" + pseudo, fmt.Sprintf(
		"vers=%s,proto=tcp,port=%d,sec=sys,hard,addr=%s,clientaddr=%s", version, s.Addr.Port(), s.Addr.Addr(), s.Client)
}

// The names of the server's files in an environment's directory, after volume-HEX. Its
// arguments name the first, which tells it from other processes.
const (
	nfsConfig = ".ganesha.conf"
	nfsPID    = ".ganesha.pid"
	nfsLog    = ".ganesha.log"
)

// nfsProgram is a server in user space: it needs nothing of the kernel, and several run side
// by side, each with one export. The kernel's has one table for a whole network namespace.
const nfsProgram = "ganesha.nfsd"

// ganeshaConf configures one server. Nothing but NFS version 4 is offered, which needs no
// portmapper. Clients have nothing to reclaim after its start.
//
// Source: ganesha-core-config(8), ganesha-export-config(8).
const ganeshaConf = `NFS_CORE_PARAM {
	Protocols = 4; Bind_addr = %[1]s; NFS_Port = %[2]d;
	Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; fsid_device = true;
}
NFSV4 {
	Graceless = true; Minor_Versions = 1, 2; Only_Numeric_Owners = true; Lease_Lifetime = 120;
	RecoveryBackend = fs; RecoveryRoot = "%[3]s";
}
LOG { Default_Log_Level = EVENT; }
`

const ganeshaExport = `EXPORT {
	Export_Id = %d; Path = "%s"; Pseudo = "%s"; Squash = No_Root_Squash; SecType = sys; Protocols = 4; Transports = TCP;
	FSAL { Name = VFS; } %s
}
`

// Folder is a folder of the host that a server of NFS serves.
type Folder struct {
	Path     string // of the folder; it has neither quotes nor backslashes
	At       string // by which clients mount it: an absolute path
	ReadOnly bool
	Client   netip.Addr // who may mount it; everybody if it is not valid
}

// config is the configuration of a server whose files begin with base.
func (s Server) config(base string, folders []Folder) string {
	var b strings.Builder
	fmt.Fprintf(&b, ganeshaConf, s.Addr.Addr(), s.Addr.Port(), base+".recovery")
	for i, f := range folders {
		access := "Access_Type = RW;"
		if f.ReadOnly {
			access = "Access_Type = RO;"
		}
		if f.Client.IsValid() {
			access = fmt.Sprintf("Access_Type = NONE; CLIENT { Clients = %s; %s }", f.Client, access)
		}
		fmt.Fprintf(&b, ganeshaExport, i+1, f.Path, f.At, access)
	}
	return b.String()
}

// nfsStart starts the server: $1 to $3 are configuration, log and the file of its process ID.
// It does not look for a message bus, on which only one server could have the name.
const nfsStart = `setsid sh -c 'echo $$ >"$3"; exec env DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nonexistent ` +
	nfsProgram + ` -F -f "$1" -L "$2" -p "$3.lock"' "$0" "$@" </dev/null >/dev/null 2>&1 &`

// nfsReady is what the server writes into its log when it listens.
const nfsReady = "NFS SERVER INITIALIZED"

// nfsTime bounds the wait for a server to start or to end.
const nfsTime = 30 * time.Second

// Serve creates the file system of an NFS volume, a file with ext4, and starts its server,
// which answers when Serve returns. It says whether the host's memory holds the data.
// Close ends it. The server belongs to no environment: it is the other machine.
func Serve(ctx context.Context, host conn.Conn, dir string, v Volume) (cached string, err error) {
	s := v.Server
	if s == nil {
		return "", fault.WithFix(fault.New(fault.Unsupported,
			"the environment is not on the experiment's network, so it cannot reach the NFS server"), "use another backing")
	}
	if err := Check(v); err != nil {
		return "", err
	}
	base, at := path.Join(dir, "volume-"+hex(v.Path)), path.Join(dir, "export", hex(v.Path))
	if err := run(ctx, host, "mkdir", "-p", at, base+".recovery"); err != nil {
		return "", err
	}
	// The options are those of the client; the server's file system has its defaults.
	if _, err := mountInFile(ctx, host, dir, at, Volume{Path: v.Path, Backing: Ext4, Size: v.Size}); err != nil {
		return "", err
	}
	return CacheUsed + ": the server of NFS caches the file system",
		s.start(ctx, host, base, []Folder{{Path: at, At: pseudo}})
}

// start starts a server whose files begin with base. It answers when start returns.
func (s Server) start(ctx context.Context, host conn.Conn, base string, folders []Folder) error {
	conf := s.config(base, folders)
	if err := host.Push(ctx, base+nfsConfig, 0o600, strings.NewReader(conf)); err != nil {
		return err
	}
	argv := []string{"sh", "-c", nfsStart, nfsProgram, base + nfsConfig, base + nfsLog, base + nfsPID}
	if s.Namespace != "" {
		argv = append([]string{"nsenter", "--net=/run/netns/" + s.Namespace, "--"}, argv...)
	}
	if err := run(ctx, host, argv...); err != nil {
		return fault.Op(nfsProgram, err)
	}
	return awaitNFS(ctx, host, base)
}

// folders is the beginning of the names of the files of ServeFolders.
const folders = "folders"

// ServeFolders serves folders of the host at the address of s, unless a server with its files in
// dir does so already. CloseServers ends it.
func ServeFolders(ctx context.Context, host conn.Conn, dir string, s Server, all []Folder) error {
	base := path.Join(dir, folders)
	if pid, err := nfsServer(ctx, host, base); pid != 0 || err != nil {
		return err
	}
	// What an earlier server wrote into them says nothing of this one.
	if err := run(ctx, host, "rm", "-rf", base+nfsLog, base+nfsPID, base+".recovery"); err != nil {
		return err
	}
	if err := run(ctx, host, "mkdir", "-p", base+".recovery"); err != nil {
		return err
	}
	return s.start(ctx, host, base, all)
}

// CloseServers ends the servers whose files are in dir.
func CloseServers(ctx context.Context, host conn.Conn, dir string) error {
	return closeNFS(ctx, host, dir)
}

// awaitNFS returns when the server whose files begin with base answers.
func awaitNFS(ctx context.Context, host conn.Conn, base string) error {
	ctx, cancel := context.WithTimeout(ctx, nfsTime)
	defer cancel()
	for {
		text, err := conn.FilesOf(host).ReadFile(ctx, base+nfsLog)
		if err == nil && bytes.Contains(text, []byte(nfsReady)) {
			return nil
		}
		// The shell that writes the process ID becomes the server.
		id, _ := conn.FilesOf(host).ReadFile(ctx, base+nfsPID)
		pid, err := nfsServer(ctx, host, base)
		if bytes.HasSuffix(id, []byte("\n")) && pid == 0 && err == nil && ctx.Err() == nil {
			return fault.New(fault.Lab, "%s ended: %s", nfsProgram, lastLine(text))
		}
		if sleep.For(ctx, 20*time.Millisecond) != nil {
			return fault.New(fault.Lab, "%s did not answer within %v: %s", nfsProgram, nfsTime, lastLine(text))
		}
	}
}

// lastLine is the last line of a log, without its prefix of date and thread.
func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	_, said, found := strings.Cut(lines[len(lines)-1], "] ")
	switch {
	case found:
		return said
	case lines[0] == "":
		return "it wrote nothing"
	}
	return lines[len(lines)-1]
}

// nfsServer returns the process of a server, 0 if it does not run.
func nfsServer(ctx context.Context, host conn.Conn, base string) (int, error) {
	return conn.Daemon(ctx, host, base+nfsPID, base+nfsConfig)
}

// nfsServers returns the servers of the environment in dir that run, by their process IDs.
func nfsServers(ctx context.Context, host conn.Conn, dir string) (map[int]string, error) {
	names, err := conn.FilesOf(host).ReadDir(ctx, dir)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Op("servers of "+dir, err)
	}
	out := map[int]string{}
	for _, n := range names {
		if base, ok := strings.CutSuffix(n, nfsPID); ok {
			pid, err := nfsServer(ctx, host, path.Join(dir, base))
			if err != nil {
				return nil, err
			}
			if pid != 0 {
				out[pid] = path.Join(dir, base)
			}
		}
	}
	return out, nil
}

// closeNFS detaches what the kernel of the host has mounted of the servers of the environment
// in dir, and ends them. A client waits for its server, so the client goes first.
func closeNFS(ctx context.Context, host conn.Conn, dir string) error {
	servers, err := nfsServers(ctx, host, dir)
	if err != nil || len(servers) == 0 {
		return err
	}
	if err := unmountBelow(ctx, host, path.Join(dir, "volume")); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, nfsTime)
	defer cancel()
	for pid, base := range servers {
		for {
			// What is in its file system is deleted, so nothing needs to be written.
			_ = run(ctx, host, "kill", "-KILL", strconv.Itoa(pid))
			if pid, err = nfsServer(ctx, host, base); err != nil {
				return err
			} else if pid == 0 {
				break
			}
			if sleep.For(ctx, 20*time.Millisecond) != nil {
				return fault.New(fault.Lab, "%s (process %d) does not end", nfsProgram, pid)
			}
		}
	}
	return nil
}

// mountNFS mounts an NFS volume with the kernel of the host, from the network of the server.
func mountNFS(ctx context.Context, host conn.Conn, dir, at string, v Volume) (cached string, err error) {
	if cached, err = Serve(ctx, host, dir, v); err != nil {
		return "", err
	}
	source, options := v.Server.Export(v)
	argv := []string{"mount", "-i", "-t", "nfs4", "-o", "noatime," + options, source, at}
	if v.Server.Namespace != "" {
		argv = append([]string{"nsenter", "--net=/run/netns/" + v.Server.Namespace, "--"}, argv...)
	}
	return cached, fault.Wrap(fault.Unsupported, "mount", run(ctx, host, argv...))
}

// lacksNFS checks that the host has the server and, unless a guest mounts it, a client.
func lacksNFS(ctx context.Context, host conn.Conn, guest bool) error {
	const module = `ls /usr/lib/ganesha/libfsalvfs.so /usr/lib64/ganesha/libfsalvfs.so /usr/lib/*/ganesha/libfsalvfs.so ` +
		`2>/dev/null | grep -q .`
	for _, x := range [][2]string{{nfsProgram, "command -v " + nfsProgram}, {"the module VFS of NFS-Ganesha", module}} {
		if run(ctx, host, "sh", "-c", x[1]) != nil && ctx.Err() == nil {
			return fault.WithFix(fault.New(fault.Unsupported, "%s is not installed", x[0]),
				"apt-get install nfs-ganesha nfs-ganesha-vfs")
		}
	}
	if guest {
		return nil
	}
	return lacksKernel(ctx, host, "nfs4")
}
