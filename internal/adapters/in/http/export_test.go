package http

import (
	"net"
	"net/http"
)

// Names for the tests of this package.
var (
	OpenAPI = openAPI
	Limit   = limit
)

// LimitConns is limitConns.
func LimitConns(l net.Listener, n int) net.Listener { return limitConns(l, n) }

// RouteInfo is a registered route as tests see it.
type RouteInfo struct {
	Method, Path string
	Public       bool
	Scopes       []Scope
}

// Routes lists everything that can be asked for.
func Routes() []RouteInfo {
	list := make([]RouteInfo, 0, len(routes()))
	for _, r := range routes() {
		list = append(list, RouteInfo{Method: r.method, Path: r.path, Public: r.public, Scopes: r.scopes})
	}
	return list
}

// HandlerWithForgottenRoute has a route whose author said nothing of who may use it.
func HandlerWithForgottenRoute(a API, path string) http.Handler {
	return newServer(a, append(routes(), route{method: http.MethodGet, path: path, handle: (*server).document}))
}
