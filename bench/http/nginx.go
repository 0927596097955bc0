package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// nginx serves one page of 4 KiB.
type nginx struct {
	addr string
	cmd  *exec.Cmd
}

const config = `
%s
worker_processes 1;
daemon off;
pid %[2]s/nginx.pid;
error_log %[2]s/error.log warn;
events { worker_connections 1024; }
http {
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 2147483647;
  keepalive_timeout 1h;
  client_body_temp_path %[2]s/t1; proxy_temp_path %[2]s/t2; fastcgi_temp_path %[2]s/t3;
  uwsgi_temp_path %[2]s/t4; scgi_temp_path %[2]s/t5;
  server { listen %[3]s; root %[2]s; }
}
`

func (l *lab) startNginx(ctx context.Context) (*nginx, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root root;" // may read the temporary directory
	}
	file := filepath.Join(l.dir, "nginx.conf")
	err = errors.Join(
		os.WriteFile(file, fmt.Appendf(nil, config, user, l.dir, addr), 0o644),
		os.WriteFile(filepath.Join(l.dir, "index.html"), bytes.Repeat([]byte("0123456789abcde\n"), 256), 0o644))
	if err != nil {
		return nil, err
	}
	n := &nginx{addr: addr, cmd: l.pinned(ctx, serverCPU, "nginx", "-c", file, "-p", l.dir, "-e",
		filepath.Join(l.dir, "error.log"))}
	n.cmd.Cancel = func() error { return n.cmd.Process.Signal(os.Interrupt) }
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	for range 500 {
		time.Sleep(10 * time.Millisecond)
		resp, err := nethttp.Get("http://" + addr + "/index.html")
		if err != nil {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		resp.Body.Close()
		if err == nil && resp.StatusCode == 200 && len(b) == 4096 {
			return n, nil
		}
	}
	n.stop()
	return nil, errors.New("nginx does not serve the page")
}

func (n *nginx) stop() {
	n.cmd.Process.Signal(os.Interrupt)
	n.cmd.Wait()
}

// freeAddr returns a loopback address on which nothing listens.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
