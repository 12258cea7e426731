"""A real Hive Metastore as a server: the one in PySpark's own jars, with its tables in a Derby database in a folder.

It runs inside an environment with PySpark 3.5, where hoodie is not installed, and imports nothing of this repository.
It listens on loopback only, tells its port in a line of JSON, and ends when its standard input does. Started by
`tests.interop.hive_metastore`:

    python hive_metastore_server.py <work folder>
"""

from __future__ import annotations

import json
import os
import sys
import threading
from glob import glob

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

OPTIONS = {
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    "hive.metastore.stats.autogather": "true",
    "hive.async.log.enabled": "false",
}
MAX_CONNECTIONS = 20


def start_gateway(folder: str) -> JavaGateway:
    """A JVM with all jars of PySpark."""
    jars = os.path.join(os.path.dirname(pyspark.__file__), "jars")
    options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"]
    options += [f"-Dderby.system.home={folder}", "--add-opens=java.base/java.lang=ALL-UNNAMED"]
    options += ["--add-opens=java.base/java.net=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED"]
    java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"
    port, token = launch_gateway(
        jarpath=glob(os.path.join(jars, "py4j-*.jar"))[0],
        classpath=os.path.join(jars, "*"),
        javaopts=options,
        java_path=java,
        die_on_exit=True,
        enable_auth=True,
        redirect_stdout=sys.stderr,
        redirect_stderr=sys.stderr,
    )
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))


def start_metastore(gateway: JavaGateway, folder: str) -> int:
    """The port of a metastore that serves in a thread."""
    jvm = gateway.jvm
    hive = jvm.org.apache.hadoop.hive.metastore
    conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
    for name, value in OPTIONS.items():
        conf.set(name, value)
    conf.set("javax.jdo.option.ConnectionURL", f"jdbc:derby:;databaseName={folder}/metastore_db;create=true")
    conf.set("hive.metastore.warehouse.dir", f"{folder}/warehouse")
    handler = hive.HiveMetaStore.newRetryingHMSHandler("hoodie-tests", conf, True)
    address = jvm.java.net.InetSocketAddress(jvm.java.net.InetAddress.getLoopbackAddress(), 0)
    thrift = jvm.org.apache.thrift
    socket = thrift.transport.TServerSocket(address)
    arguments = getattr(thrift.server, "TThreadPoolServer$Args")(socket)
    arguments = arguments.processor(hive.TUGIBasedProcessor(handler))
    transports = getattr(jvm.org.apache.hadoop.hive.thrift, "TUGIContainingTransport$Factory")
    arguments = arguments.transportFactory(transports())
    arguments = arguments.protocolFactory(getattr(thrift.protocol, "TBinaryProtocol$Factory")())
    server = thrift.server.TThreadPoolServer(arguments.minWorkerThreads(1).maxWorkerThreads(MAX_CONNECTIONS))
    threading.Thread(target=server.serve, daemon=True).start()
    return int(socket.getServerSocket().getLocalPort())


def main() -> None:
    (folder,) = sys.argv[1:]
    gateway = start_gateway(folder)
    print(json.dumps({"port": start_metastore(gateway, folder)}), flush=True)
    sys.stdin.read()
    gateway.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
