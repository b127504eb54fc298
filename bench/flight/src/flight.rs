//! A client that puts batches to a server of Arrow Flight (tonic), over a local socket and in one runtime.

use std::pin::Pin;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse,
    PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};

use crate::contestant::RunResult;
use crate::workload::{Columns, LastRows};

/// Windows of HTTP/2, as large as the exchange's credit. With the default, the sender waits after every 64
/// KB.
const WINDOW_BYTES: u32 = 4 << 20;
/// Larger than any batch here, so that batches are sent whole.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// As many threads as the benchmarks of the workspace have: one that sends and one that receives.
const THREADS: usize = 2;

/// A server, and a client that is connected to it.
pub(crate) struct Flight {
    runtime: Runtime,
    client: FlightServiceClient<Channel>,
}

impl Flight {
    /// Starts a server, and connects to it.
    pub(crate) fn start() -> Result<Flight> {
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build().map_err(failed)?;
        let channel = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            let service = FlightServiceServer::new(Receiver).max_decoding_message_size(MESSAGE_BYTES_MAX);
            let server = Server::builder()
                .initial_stream_window_size(Some(WINDOW_BYTES))
                .initial_connection_window_size(Some(WINDOW_BYTES))
                .tcp_nodelay(true)
                .add_service(service);
            tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
            let endpoint = Channel::from_shared(format!("http://{address}")).map_err(failed)?;
            let endpoint = endpoint
                .initial_stream_window_size(Some(WINDOW_BYTES))
                .initial_connection_window_size(Some(WINDOW_BYTES))
                .tcp_nodelay(true);
            endpoint.connect().await.map_err(failed)
        })?;
        let client = FlightServiceClient::new(channel).max_encoding_message_size(MESSAGE_BYTES_MAX);
        Ok(Flight { runtime, client })
    }

    /// Puts all batches. The server answers with the number of their rows and the hash of the last ones.
    pub(crate) fn put(&self, columns: &Arc<Columns>) -> Result<RunResult> {
        let (columns, count) = (Arc::clone(columns), columns.count);
        let batches = (0..count).map(move |turn| Ok(columns.batches[turn % columns.batches.len()].clone()));
        let encoder = FlightDataEncoderBuilder::new().with_max_flight_data_size(MESSAGE_BYTES_MAX);
        // Without a batch that cannot be encoded, the answer differs from that of the limit.
        let data = encoder.build(stream::iter(batches)).filter_map(|data| std::future::ready(data.ok()));
        let mut client = self.client.clone();
        let answer: Vec<PutResult> = self.runtime.block_on(async {
            client.do_put(data).await.map_err(failed)?.into_inner().try_collect().await.map_err(failed)
        })?;
        let answer = answer.first().map(|answer| answer.app_metadata.as_ref()).unwrap_or_default();
        match answer.as_chunks::<8>().0 {
            [rows, hash] => {
                Ok(RunResult { events: u64::from_le_bytes(*rows), result_hash: Some(u64::from_le_bytes(*hash)) })
            }
            _ => Err(Error::internal("the server gave no answer")),
        }
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::outside(format!("Arrow Flight: {error}"))
}

/// Decodes what is put, and looks at the last row of each batch.
struct Receiver;

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn unused<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not part of the benchmark"))
}

#[tonic::async_trait]
impl FlightService for Receiver {
    type HandshakeStream = Responses<HandshakeResponse>;
    type ListFlightsStream = Responses<FlightInfo>;
    type DoGetStream = Responses<FlightData>;
    type DoPutStream = Responses<PutResult>;
    type DoExchangeStream = Responses<FlightData>;
    type DoActionStream = Responses<arrow_flight::Result>;
    type ListActionsStream = Responses<ActionType>;

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        let input = request.into_inner().map_err(|status| FlightError::Tonic(Box::new(status)));
        let mut batches = FlightRecordBatchStream::new_from_flight_data(input);
        let (mut rows, mut last_rows) = (0_u64, LastRows::new());
        while let Some(batch) = batches.next().await {
            let batch = batch.map_err(Status::from)?;
            rows += batch.num_rows() as u64;
            last_rows.add_batch(&batch);
        }
        let answer = [rows.to_le_bytes(), last_rows.0.to_le_bytes()].concat();
        let result = PutResult { app_metadata: answer.into() };
        Ok(Response::new(Box::pin(stream::once(async { Ok(result) }))))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        unused()
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        unused()
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        unused()
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        unused()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        unused()
    }

    async fn do_get(&self, _: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        unused()
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoExchangeStream>, Status> {
        unused()
    }

    async fn do_action(&self, _: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        unused()
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        unused()
    }
}
