package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	webserver "bakeoff/measure/workload/http/server"
)

// nginx serves one page of 4 KiB, over HTTP/1.1 and HTTP/2, with and without TLS.
type nginx struct {
	plain, secure   string // addresses for HTTP/1.1
	plain2, secure2 string // addresses for HTTP/2
	sum             string // SHA-256 of its certificate
	cmd             *exec.Cmd
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
  keepalive_requests 2147483647;
  keepalive_timeout 1h;
  client_body_temp_path %[2]s/t1; proxy_temp_path %[2]s/t2; fastcgi_temp_path %[2]s/t3;
  uwsgi_temp_path %[2]s/t4; scgi_temp_path %[2]s/t5;
  server {
    listen %[3]s; listen %[4]s ssl; listen %[6]s ssl http2; root %[2]s;
    ssl_certificate %[2]s/certificate.pem; ssl_certificate_key %[2]s/key.pem;
  }
  # With sendfile nginx 1.22 turns TCP_NODELAY off, and responses take 40 ms.
  server { listen %[5]s http2; root %[2]s; sendfile off; }
}
`

func (l *lab) startNginx(ctx context.Context) (*nginx, error) {
	n := &nginx{}
	var err error
	for _, addr := range []*string{&n.plain, &n.secure, &n.plain2, &n.secure2} {
		if *addr, err = freeAddr(); err != nil {
			return nil, err
		}
	}
	pair, err := webserver.SelfSigned("ecdsa-p256", netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		return nil, err
	}
	n.sum = pair.Sum
	user := ""
	if os.Geteuid() == 0 {
		user = "user root root;" // may read the temporary directory
	}
	file := filepath.Join(l.dir, "nginx.conf")
	err = errors.Join(
		os.WriteFile(file, fmt.Appendf(nil, config, user, l.dir, n.plain, n.secure, n.plain2, n.secure2), 0o644),
		os.WriteFile(filepath.Join(l.dir, "certificate.pem"), pair.Certificate, 0o644),
		os.WriteFile(filepath.Join(l.dir, "key.pem"), pair.Key, 0o600),
		os.WriteFile(filepath.Join(l.dir, "index.html"), bytes.Repeat([]byte("0123456789abcde\n"), 256), 0o644))
	if err != nil {
		return nil, err
	}
	n.cmd = l.pinTo(ctx, serverCPU, "nginx", "-c", file, "-p", l.dir, "-e", filepath.Join(l.dir, "error.log"))
	n.cmd.Cancel = func() error { return n.cmd.Process.Signal(os.Interrupt) }
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	for range 500 {
		time.Sleep(10 * time.Millisecond)
		resp, err := nethttp.Get("http://" + n.plain + "/index.html")
		if err != nil {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		resp.Body.Close()
		if err == nil && resp.StatusCode == 200 && len(b) == 4096 {
			return n, nil
		}
	}
	n.stopServer()
	return nil, errors.New("nginx does not serve the page")
}

func (n *nginx) stopServer() {
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
